"""A server as a child process: started, fed, ended, with nothing left behind.

The child gets a clean environment: what every program needs to run (`INHERITED`) and what
`Command.env` adds, never the whole of this process's, whose secrets are not the server's. It leads
a process group of its own, so that what it starts ends with it.

Spec: basic/transports/stdio, "Shutdown" (I-02).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from mcpost.errors import BadTarget, ConnectFailed, ConnectionLost

__all__ = ("INHERITED", "Child", "Command", "start_child")

_log = logging.getLogger("mcpost.client.child")

INHERITED: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
"""Names of the environment variables that a child gets of ours."""

_MAX_ERROR_LINE: Final = 8 * 1024
_KEPT_ERRORS: Final = 5
_POLL: Final = 0.01
_LAST_BYTES: Final = 0.5
"""Seconds in which the end of the output follows the end of the child, or the other way round."""


@dataclass(frozen=True)
class Command:
    """The command of a server on stdio.

    Args:
        line: The command and its arguments; one text is split as a shell would, without a shell.
        env: Environment variables beyond `INHERITED`.
        cwd: Directory it runs in, by default this process's.

    Raises:
        BadTarget: There is no command in it.
    """

    line: str | Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if not self.argv or not all(isinstance(word, str) for word in self.argv):
            raise BadTarget(f"{self.line!r} is no command")

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of the command."""
        if not isinstance(self.line, str):
            return tuple(self.line)
        try:
            return tuple(shlex.split(self.line))
        except ValueError as error:
            raise BadTarget(f"{self.line!r} is no command: {error}") from error

    @property
    def name(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)

    def environment(self) -> dict[str, str]:
        """The environment of the child."""
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**kept, **self.env}


class Child(asyncio.SubprocessProtocol):
    """A running child.

    Args:
        name: Its command, for messages.
        take: Gets what it writes.
        lost: Is told once when it has ended, or has closed its output.
    """

    def __init__(
        self, name: str, take: Callable[[bytes], None], lost: Callable[[str], None]
    ) -> None:
        self._name = name
        self._take = take
        self._lost = lost
        self._is_lost = False
        self._is_mute = False
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._errors = b""
        self._said: deque[str] = deque(maxlen=_KEPT_ERRORS)
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Its process id, which is that of its group as well."""
        assert self._transport is not None
        return self._transport.get_pid()

    def write(self, data: bytes) -> None:
        """Write to its input; what a dead child does not read is dropped."""
        pipe = self._stdin()
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    async def drain(self) -> None:
        """Wait until it has read most of what was written.

        Raises:
            ConnectionLost: It has ended.
        """
        await self._room.wait()
        if self._is_lost:
            raise ConnectionLost(self.explain())

    def explain(self) -> str:
        """Say how it ended, and what it said last."""
        code = self._transport.get_returncode() if self._transport is not None else None
        if code is None:
            how = "closed its output"
        elif code < 0:
            how = f"was ended by signal {-code}"
        else:
            how = f"exited with status {code}"
        said = " / ".join(self._said)
        return f"the server {self._name!r} {how}" + (f"; it said: {said}" if said else "")

    async def stop(self, patience: float) -> None:
        """End it and its whole group: end of input, then SIGTERM, then SIGKILL.

        Args:
            patience: Seconds it has after each of the first two.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._stop(patience))
        await asyncio.shield(self._ending)

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take output."""
        if fd == 1:
            self._take(data)
        else:
            self._take_errors(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Take the end of a pipe; without its output it is of no use."""
        if fd == 1:
            self._is_mute = True
            self._near_end()
        elif fd == 0:
            self._room.set()

    def process_exited(self) -> None:
        """Take its end; what stands in the pipe is read first."""
        self._exited.set()
        self._room.set()
        self._near_end()

    def connection_lost(self, exc: Exception | None) -> None:
        """All pipes are closed and it has ended."""
        self._lose()
        self._closed.set()

    def pause_writing(self) -> None:
        """The pipe is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """There is room in the pipe."""
        self._room.set()

    # Within.

    def _stdin(self) -> asyncio.WriteTransport | None:
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        return cast("asyncio.WriteTransport | None", pipe)

    def _near_end(self) -> None:
        """One of two signs of the end is there; the other may never come, so it has its time."""
        if self._is_mute and self._exited.is_set():
            self._lose()
        elif not self._is_lost:
            # A grandchild may hold the pipe open for ever, and a child live on without output.
            asyncio.get_running_loop().call_later(_LAST_BYTES, self._lose)

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._room.set()
            self._flush_errors()
            self._lost(self.explain())

    async def _stop(self, patience: float) -> None:
        assert self._transport is not None
        pipe = self._stdin()
        if pipe is not None:
            pipe.close()
        if not await _within(self._exited, patience):
            self._signal(signal.SIGTERM)
            if not await _within(self._exited, patience):
                self._signal(signal.SIGKILL)
                await _within(self._exited, patience)
        await self._end_group(patience)
        self._flush_errors()
        self._transport.close()
        await _within(self._closed, patience)

    async def _end_group(self, patience: float) -> None:
        """End what the child has started and left behind."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = asyncio.get_running_loop().time() + patience
            if not self._signal(number):
                return
            while self._signal(0) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
                await asyncio.sleep(_POLL)

    def _signal(self, number: int) -> bool:
        """Signal the whole group; false where nobody is in it any more."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
            return True
        return False

    def _take_errors(self, data: bytes) -> None:
        *lines, self._errors = (self._errors + data).split(b"\n")
        for line in lines:
            self._say(line)
        if len(self._errors) > _MAX_ERROR_LINE:
            self._flush_errors()

    def _flush_errors(self) -> None:
        rest, self._errors = self._errors, b""
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        text = line[:_MAX_ERROR_LINE].decode(errors="replace").rstrip()
        if text:
            self._said.append(text)
            _log.info("%s: %s", self._name, text)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True


async def start_child(
    command: Command, take: Callable[[bytes], None], lost: Callable[[str], None]
) -> Child:
    """Start a command.

    Raises:
        ConnectFailed: It cannot be started.
    """
    child = Child(command.name, take, lost)
    try:
        await asyncio.get_running_loop().subprocess_exec(
            lambda: child,
            *command.argv,
            env=command.environment(),
            cwd=command.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConnectFailed(
            f"cannot start {command.name!r}: {reason} (a URL would begin with http)"
        ) from error
    return child
