"""The rules of the wire: pure functions and small machines on bytes and dictionaries.

One module stands for one page or section of the specification; nothing here opens a socket, reads
a clock, starts a task or writes a log. Import the modules: `from mcpost.wire import sse`.
"""
