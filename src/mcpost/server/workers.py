"""Several processes behind one socket, and one that watches them.

A worker that dies is replaced, at most one a second; a signal is passed on, and the watcher ends
when the last worker has.

Spec: ours.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from mcpost.errors import UsageError

__all__ = ("supervise",)

_log = logging.getLogger("mcpost.server")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PAUSE: Final = 1.0
"""Seconds between the starts of replacements."""

_MARGIN: Final = 1.9
"""Seconds after the grace at which workers that have not ended are killed."""


def supervise(workers: int, work: Callable[[], None], grace: float) -> None:
    """Run a function in several processes until a signal comes.

    Args:
        workers: How many.
        work: What each does; it ends by itself on SIGTERM.
        grace: Seconds that they get for that.

    Raises:
        UsageError: This system cannot fork.
    """
    if not hasattr(os, "fork"):
        raise UsageError("this system has no fork: serve with one worker")
    _Supervisor(workers, work, grace).run()


class _Supervisor:
    def __init__(self, workers: int, work: Callable[[], None], grace: float) -> None:
        self._workers = workers
        self._work = work
        self._grace = grace
        self._children: set[int] = set()
        self._ending = False
        self._wake = threading.Event()

    def run(self) -> None:
        before = {each: signal.signal(each, self._handle) for each in _SIGNALS}
        try:
            for _ in range(self._workers):
                self._start()
            while not self._ending:
                self._replace()
                self._wake.wait(_PAUSE)
            self._wait_for_all()
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _replace(self) -> None:
        """Start one worker where one has died."""
        self._reap(os.WNOHANG)
        if len(self._children) < self._workers and not self._ending:
            _log.warning("a worker died; another one takes its place")
            self._start()

    def _start(self) -> None:
        child = os.fork()
        if child:
            self._children.add(child)
            return
        status = 1
        try:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            self._work()
            status = 0
        finally:
            # Nothing of the watcher's own is to be unwound here.
            os._exit(status)

    def _handle(self, sig: int, frame: FrameType | None) -> None:
        self._tell(signal.SIGKILL if self._ending else signal.SIGTERM)
        self._ending = True
        self._wake.set()

    def _tell(self, sig: int) -> None:
        for child in self._children:
            try:
                os.kill(child, sig)
            except ProcessLookupError:
                continue

    def _reap(self, options: int) -> None:
        for child in list(self._children):
            found, _ = os.waitpid(child, options)
            if found:
                self._children.discard(child)

    def _wait_for_all(self) -> None:
        end = time.monotonic() + self._grace + _MARGIN
        while self._children and time.monotonic() < end:
            self._reap(os.WNOHANG)
            time.sleep(0.02)
        self._tell(signal.SIGKILL)
        self._reap(0)
