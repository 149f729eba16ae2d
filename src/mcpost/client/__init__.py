"""The client room: calling servers.

`Client` is the whole of it for most programs; the rest is what its arguments are made of.
"""

from __future__ import annotations

from mcpost.client.cache import Cache
from mcpost.client.child import Command
from mcpost.client.client import Client
from mcpost.client.credentials import Auth
from mcpost.client.era import EraMemory
from mcpost.client.handle import CallHandle
from mcpost.client.inputs import Elicitation, Sampling
from mcpost.client.listen import Listen
from mcpost.client.network import Network
from mcpost.client.retry import Retry

__all__ = (
    "Auth",
    "Cache",
    "CallHandle",
    "Client",
    "Command",
    "Elicitation",
    "EraMemory",
    "Listen",
    "Network",
    "Retry",
    "Sampling",
)
