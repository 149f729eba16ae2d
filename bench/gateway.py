"""Proxies between the generator and a server: each alone on a core, the others on the second.

Behind all of them stands the cheapest server there is here (`bench.bare_protocol`), so that it is
not the slower side; fastmcp's proxy and the streams need one that knows more, which is ours.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from bench.machine import LOAD_CORE, Running, serving
from bench.proxies import PROXIES

__all__ = ("FASTMCP", "NONE", "NOTED", "TARGETS", "loads_for", "proxying")

NONE: Final = "no proxy"
FASTMCP: Final = "fastmcp proxy"
TARGETS: Final = (NONE, *PROXIES)
NOTED: Final = "mcpost gateway"
"""The one whose open streams are weighed."""

BARE: Final = "bare protocol"
OURS: Final = "mcpost native"


def loads_for(name: str, seconds: int) -> list[tuple[int, int]]:
    """The loads under which a target is measured.

    Args:
        name: One of `TARGETS`.
        seconds: Of load, for each figure.

    Returns:
        Numbers of connections, and seconds.
    """
    if name == FASTMCP:
        # In less it does not answer each connection once; with more connections neither.
        return [(1, max(seconds, 5)), (16, max(seconds, 5))]
    return [(connections, seconds) for connections in (1, 16, 64)]


@contextlib.contextmanager
def proxying(name: str, *, streams: bool = False) -> Iterator[Running]:
    """Run a proxy and a server behind it until the block ends.

    Args:
        name: One of `TARGETS`.
        streams: Whether the server has to know more than `add`.

    Raises:
        RuntimeError: One of them does not start.
    """
    backend = OURS if streams or name == FASTMCP else BARE
    with serving(backend, core=LOAD_CORE) as behind, tempfile.TemporaryDirectory() as where:
        if name == NONE:
            yield behind
            return
        arguments = [name, "{port}", str(behind.port), where]
        command = [sys.executable, "-m", "bench.proxies", *arguments]
        with serving(name, command) as proxy:
            yield proxy
