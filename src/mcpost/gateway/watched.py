"""When a file has changed and is whole again.

A file is looked at in turns, by what `stat` says of it: that costs microseconds, and it works on
every file system, through symbolic links (as Kubernetes exchanges them), and for editors that write
another file and rename it. A change counts once it has stayed the same for one turn, so that a file
is not read while it is being written.

Spec: POSIX.1, `stat`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

__all__ = ("Stamp", "Watched", "stamp_of", "watch_file")

Stamp = tuple[int, int, int, int]
"""Device, inode, size in bytes and time of the last change in nanoseconds."""


class Watched:
    """One file, looked at in turns.

    Args:
        stamp: What it was when it was read; `None` where it was not there.
    """

    __slots__ = ("_last", "_read")

    def __init__(self, stamp: Stamp | None) -> None:
        self._read = stamp
        self._last = stamp

    def look(self, stamp: Stamp | None) -> bool:
        """Take note of what it is now.

        Args:
            stamp: Its stamp; `None` where it is not there, which may be the middle of a change.

        Returns:
            Whether it is to be read: it is another than the one that was read, and has stayed the
            same since the look before. That is said once for each change.
        """
        settled = stamp == self._last
        self._last = stamp
        if stamp is None or not settled or stamp == self._read:
            return False
        self._read = stamp
        return True


def stamp_of(path: Path) -> Stamp | None:
    """What tells one state of a file from the next; `None` where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


async def watch_file(
    path: Path, watched: Watched, seconds: float, changed: Callable[[], object]
) -> None:
    """Call a function whenever a file has changed; runs until it is cancelled.

    Args:
        path: The file; it may come and go.
        watched: What it was when it was read.
        seconds: Time between two looks.
        changed: Called once for each change, one look after it.
    """
    while True:
        await asyncio.sleep(seconds)
        if watched.look(stamp_of(path)):
            changed()
