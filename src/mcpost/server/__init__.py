"""The server's end: what an author registers, and the doors through which it is called."""
