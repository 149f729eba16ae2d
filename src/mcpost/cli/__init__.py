"""The command line: thin commands over the rooms below. It draws, and decides nothing."""
