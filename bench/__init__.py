"""Measuring mcpost beside its peers, in one run: `python -m bench`."""

from typing import Final

EVENTS: Final = 100
"""Progress events that a call of `count` tells."""
