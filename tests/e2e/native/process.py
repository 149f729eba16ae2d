"""The server of `tests.e2e.server.busy` in a process of its own, on our own engine."""

from __future__ import annotations

import asyncio
import sys

from mcpost.server.native import NativeApp, NativeProcess
from mcpost.server.run import Binding
from mcpost.server.settings import Settings
from tests.e2e.server.busy import server

if __name__ == "__main__":
    binding = Binding.make("127.0.0.1", 0)
    app = NativeApp(server.endpoint(Settings.make(limits=server.limits)), "/mcp")
    process = NativeProcess(app, binding.sockets, asyncio.new_event_loop)
    process.serve_until_signal(lambda: print(binding.url("/mcp"), flush=True))  # noqa: T201
    sys.exit(0)
