"""The compare room: one slow call on three wires, measured and drawn.

`run` does it and records what passes, `table` says it in words, `page` draws it.
"""
