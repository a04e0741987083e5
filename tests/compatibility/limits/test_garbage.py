"""What clients leave behind is freed without the cyclic collector (server/garbage_collection).

The broker freezes what outlives two young collections, so a cycle that a client could make would
stay for ever.
"""

import json
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.compatibility.clients.confluent_client import ConfluentClient
from tests.compatibility.kafka.test_every_api import ask_every_api
from tests.compatibility.limits import garbage_probe
from tests.compatibility.protocol_clients import PROTOCOL_CLIENTS
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic, fetch_body, init_producer_id

ROUNDS = 3


@pytest.fixture
def probed(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    # In place of `python -m broker start …`.
    broker.wrap = lambda words: [
        sys.executable, garbage_probe.__file__, str(tmp_path), *words[words.index("start") :]
    ]  # fmt: skip
    broker.start()
    yield broker
    broker.stop()
    broker.check()


def garbage(folder: Path) -> dict[str, int]:
    """What only cycles have kept since the last time."""
    counted = folder / garbage_probe.COUNTED
    counted.unlink(missing_ok=True)
    (folder / garbage_probe.COUNT).touch()
    wait_until(counted.exists, "the broker's garbage is counted")
    found: dict[str, int] = json.loads(counted.read_text())
    return found


def use_every_protocol(address: str) -> None:
    for connect in PROTOCOL_CLIENTS.values():
        topic = f"topic-{uuid.uuid4().hex}"
        with WireClient(address) as client:
            create_topic(client, topic)
        with closing(connect(address)) as door:
            door.write(topic, [b"1", b"2"])
            door.read(topic, 1)
            door.commit(topic, topic, 1)
            door.committed(topic, topic)
        with WireClient(address) as client:
            client.request("DeleteTopics", 3, {"topic_names": [topic], "timeout_ms": 60_000})


def join_and_leave_a_group(address: str) -> None:
    topic = f"topic-{uuid.uuid4().hex}"
    with closing(ConfluentClient(address, {})) as client:
        client.create_topic(topic, partitions=2)
        members = [client.join(topic, topic) for _ in range(2)]

        def share_the_topic() -> bool:
            for each in members:
                each.poll()
            return [len(each.assignment()) for each in members] == [1, 1]

        wait_until(share_the_topic, "one partition each")
        for each in members:
            each.close()
        client.delete_topic(topic)


def end_in_the_middle(address: str) -> None:
    """Connections that end with half a request, with what is none, and while requests wait."""
    with WireClient(address) as client:
        topic = f"topic-{uuid.uuid4().hex}"
        create_topic(client, topic)
        init_producer_id(client)
    frame = client.frame("Metadata", 9, b"")
    for sent in (frame[:-1], b"\xff" * 64, b"\x00\x00\x00\x04abcd", b"V1|99|nothing\n"):
        with socket.create_connection(split(address)) as connection:
            connection.sendall(sent)
    for version in (3, 11):  # Python's Fetch, and the native one
        with WireClient(address) as client:
            body = fetch_body(topic, 0, 0, 1 << 20) | {"max_wait_ms": 300_000, "min_bytes": 1}
            client.send("Fetch", version, body)


def split(address: str) -> tuple[str, int]:
    host, port = address.split(":")
    return host, int(port)


WORK: list[Callable[[str], object]] = [
    ask_every_api,
    use_every_protocol,
    join_and_leave_a_group,
    end_in_the_middle,
]


@pytest.mark.parametrize("work", WORK)
def test_what_clients_leave_behind_is_in_no_cycle(
    probed: BrokerProcess, tmp_path: Path, work: Callable[[str], object]
) -> None:
    work(probed.address)  # what is imported or made once
    garbage(tmp_path)

    for _ in range(ROUNDS):
        work(probed.address)

    assert garbage(tmp_path) == {}
