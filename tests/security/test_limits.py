"""Limits that anybody meets who can connect, and references that only the broker's own file has."""

import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from broker.model.limits import (
    CURSUS_FRAME_BYTES_MAX,
    FIRST_REQUEST_SECONDS,
    FRAME_BYTES_MAX,
    HOUSEKEEPING_SECONDS,
    RUSTLOG_FRAME_BYTES_MAX,
    STALLED_SECONDS,
    TAGS_PER_STRUCT_MAX,
)
from tests.support import rustlog_client
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_requests import create_topic

EXIT_USAGE = 2
INVALID_CONFIG = 40
TOPIC = 2
SET = 0
LATE_S = 60  # of a loaded machine
API_VERSIONS = struct.pack(">hhi", 18, 3, 1) + b"\xff\xff"
BODY = b"\2x\2y\0"  # the name and version of a client's software


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("limits"))
    broker.start()
    yield broker
    broker.stop()
    broker.check()


def connection(broker: BrokerProcess, held: ExitStack) -> socket.socket:
    host, _, port = broker.address.rpartition(":")
    return held.enter_context(socket.create_connection((host, int(port)), LATE_S))


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_a_broker_without_authentication_does_not_listen_beyond_loopback(
    tmp_path: Path, address: str
) -> None:
    broker = BrokerProcess(tmp_path, listen=address)
    broker.launch()

    assert broker.wait() == EXIT_USAGE
    assert "can be reached from other machines and there is no authentication" in broker.stderr()


@pytest.mark.parametrize(("count", "is_served"), [(0, True), (64, True), (65, False)])
def test_a_header_has_a_limited_number_of_tagged_fields(
    broker: BrokerProcess, count: int, is_served: bool
) -> None:
    assert TAGS_PER_STRUCT_MAX == 64
    tags = bytes([count]) + b"".join(_varint(1_000 + each) + b"\1x" for each in range(count))
    with WireClient(broker.address) as client:
        client.send_frame(API_VERSIONS + tags + BODY)

        if is_served:
            assert client.receive_frame()
        else:
            with pytest.raises(ConnectionClosedError):
                client.receive_frame()


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7])


@pytest.mark.parametrize("reference", ["${env:PATH}", "${file:/etc/passwd:root}", "${dir:/etc:x}"])
def test_what_clients_set_is_no_reference_to_files_or_variables(
    broker: BrokerProcess, reference: str
) -> None:
    """CVE-2024-31141: only the file that the broker was started with has references."""
    with WireClient(broker.address) as client:
        name = re.sub(r"\W", "", reference)
        create_topic(client, name)
        config = {"name": "cleanup.policy", "config_operation": SET, "value": reference}
        resource = {"resource_type": TOPIC, "resource_name": name, "configs": [config]}
        [altered] = client.request(
            "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False}
        )["responses"]
        created = client.request(
            "CreateTopics",
            7,
            {
                "topics": [
                    {
                        "name": f"{name}-new",
                        "num_partitions": 1,
                        "replication_factor": 1,
                        "configs": [{"name": "cleanup.policy", "value": reference}],
                    }
                ],
                "timeout_ms": 10_000,
            },
        )["topics"][0]

    for answer in (altered, created):
        assert answer["error_code"] == INVALID_CONFIG
        assert os.environ["PATH"] not in answer["error_message"]
        assert "/root" not in answer["error_message"]


@pytest.mark.slow("waits until slow connections are closed")
def test_a_connection_that_begins_no_request_or_does_not_end_one_is_closed(
    broker: BrokerProcess,
) -> None:
    """Before its protocol is known, then within a frame, and with a byte now and then."""
    frame = struct.pack(">i", 100_000) + API_VERSIONS
    begun = time.monotonic()
    with ExitStack() as held:
        undecided = connection(broker, held)
        undecided.sendall(frame[:2])
        stalled = connection(broker, held)
        stalled.sendall(frame)
        dripping = connection(broker, held)
        dripping.sendall(frame)
        ends = {}
        waiting = {"undecided": undecided, "stalled": stalled, "dripping": dripping}
        for each in waiting.values():
            each.setblocking(False)
        while waiting:
            assert time.monotonic() - begun < STALLED_SECONDS + LATE_S, sorted(waiting)
            with suppress(OSError):
                dripping.send(b"x")
            time.sleep(0.25)
            for name, each in list(waiting.items()):
                if _is_closed(each):
                    ends[name] = time.monotonic() - begun
                    del waiting[name]
        assert answers(broker)

    assert ends["undecided"] > FIRST_REQUEST_SECONDS - 1
    assert ends["undecided"] < ends["stalled"] + HOUSEKEEPING_SECONDS
    assert min(ends["stalled"], ends["dripping"]) > STALLED_SECONDS - 1


def _is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def answers(broker: BrokerProcess) -> bool:
    with WireClient(broker.address) as client:
        return client.request("ApiVersions", 0, {})["error_code"] == 0


FIRST = {  # a request of each protocol that is answered, and its longest frame
    "kafka": (API_VERSIONS[:2] + struct.pack(">hi", 0, 1) + b"\xff\xff", FRAME_BYTES_MAX),
    "cursus": (b"HELP", CURSUS_FRAME_BYTES_MAX),
    "rustlog": (rustlog_client.fetch("topic", 0, 0, 100), RUSTLOG_FRAME_BYTES_MAX),
}


@pytest.mark.parametrize("size", [-(2**31), -1, 2**31 - 1, None])
@pytest.mark.parametrize("protocol", FIRST)
def test_an_impossible_size_closes_a_connection_of_every_protocol(
    broker: BrokerProcess, protocol: str, size: int | None
) -> None:
    """Sizes of frames after a valid request; None: one byte too many."""
    frame, longest = FIRST[protocol]
    with ExitStack() as held:
        opened = connection(broker, held)
        opened.sendall(rustlog_client.frame(frame))
        assert opened.recv(1 << 16), "the request before it is answered"
        opened.settimeout(STALLED_SECONDS / 2)  # later it is closed whatever it has sent
        with suppress(ConnectionResetError, BrokenPipeError):
            opened.sendall(struct.pack(">i", longest + 1 if size is None else size) + b"x" * 1_000)
            while opened.recv(1 << 16):
                pass

    assert answers(broker)
