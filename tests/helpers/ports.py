"""Ports for the programs of others, which take a number and cannot be given a socket."""

from __future__ import annotations

import random
import socket

_CHOICE = random.SystemRandom()


def free_port() -> int:
    """Give a port of this machine that nothing listens on.

    It lies below those that the kernel gives to outgoing connections and to whoever asks for port
    0, so nobody is given it before the program has it; and it is drawn, so that tests that run at
    once do not agree on one.
    """
    while True:
        port = _CHOICE.randrange(12_000, 32_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
