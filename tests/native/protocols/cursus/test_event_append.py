"""Cursus's APPEND_STREAM, natively: the next event of a stream, or the first; or it is Python's."""

import errno
from types import SimpleNamespace

import pytest

from broker._native.kernel import file_ops
from broker._native.protocols.cursus.produce import HAS_STREAMS
from broker.codec import records
from broker.model.limits import CURSUS_FAST_BATCH_BYTES_MAX
from broker.model.stream_limits import EVENT_KEY_BYTES_MAX
from tests.native.protocols.cursus.served_appends import APPEND, KEY, Served, framed
from tests.support.native_wire import Wire


@pytest.fixture
def served(wire: Wire) -> Served:
    return Served(wire, 3)


@pytest.mark.parametrize("envelope", [b"", b"\0\0", b"\0\x05topic"])
def test_the_next_event_of_a_known_stream_is_appended(served: Served, envelope: bytes) -> None:
    served.heads.know(KEY, 4)

    for offset, version in enumerate((5, 6)):
        served.send(envelope + APPEND % version)
        answer = b"OK version=%d offset=%d partition=%d"
        assert served.client.frame() == framed(answer % (version, offset, served.log.partition))
    assert served.wire.slow == []
    assert served.heads.versions == {KEY: 6}
    assert served.heads.recent == {KEY: [4, 0, 1]}
    [first, _] = records(served.log.read(0, 1 << 20))
    assert (first.key, first.value) == (KEY, b"a b")
    assert first.headers == [
        (b"cursus.producer_id", b"p"),
        (b"cursus.event_type", b"E"),
        (b"cursus.schema_version", b"2"),
        (b"cursus.aggregate_version", b"5"),
        (b"cursus.metadata", b"m"),
    ]


def test_a_version_is_given_once_within_one_turn(served: Served) -> None:
    served.heads.know(KEY, 0)

    served.client.send(framed(APPEND % 1) * 2)

    assert served.log.log_end_offset == 1
    assert len(served.wire.slow) == 1
    served.wire.slow.pop().send(None)
    served.client.send(b"")


def test_the_first_event_of_a_stream_is_appended_if_the_key_is_surely_new(served: Served) -> None:
    served.heads.keys.complete()

    for version in (1, 2):
        served.send(APPEND % version)
        answer = b"OK version=%d offset=%d partition=%d"
        assert served.client.frame() == framed(
            answer % (version, version - 1, served.log.partition)
        )
    assert served.wire.slow == []
    assert served.heads.versions == {KEY: 2}
    assert served.heads.recent == {KEY: [0, 0, 1]}
    assert not served.heads.keys.is_new(KEY)


def test_a_first_event_is_left_to_python_if_the_key_may_have_a_stream(served: Served) -> None:
    served.assert_left_to_python(APPEND % 1)  # not all keys are known
    served.heads.keys.complete()
    served.assert_left_to_python(APPEND % 2)
    served.heads.append(KEY, 1, 0)
    served.heads.forget_versions(1)
    served.heads.take_recent()

    served.assert_left_to_python(APPEND % 1)


@pytest.mark.parametrize("key", [b"x" * (EVENT_KEY_BYTES_MAX + 1), b"k\0y"])
def test_a_first_event_with_an_invalid_key_is_left_to_python(durable: Wire, key: bytes) -> None:
    served = Served(durable, 1)
    served.heads.keys.complete()

    served.assert_left_to_python(b"APPEND_STREAM topic=topic key=%s version=1 message=m" % key)


def test_a_key_may_have_as_many_bytes_as_in_python(durable: Wire) -> None:
    served = Served(durable, 1)
    key = b"x" * EVENT_KEY_BYTES_MAX
    served.heads.keys.complete()

    served.send((APPEND % 1).replace(b"key=key", b"key=" + key))

    assert served.client.frame().endswith(b"OK version=1 offset=0 partition=3")
    assert served.heads.recent == {key: [0, 0]}


@pytest.mark.parametrize("version", [0, 3, 5])
def test_another_version_is_left_to_python(served: Served, version: int) -> None:
    served.heads.know(KEY, 3)

    served.assert_left_to_python(APPEND % version)


@pytest.mark.parametrize(
    "body",
    [
        b"APPEND_STREAM ",
        b"append_stream topic=topic key=key version=1 message=m",
        b"APPEND_STREAM topic=topic key=key version=1",
        b"APPEND_STREAM topic=topic key=key version=1 message= ",
        b"APPEND_STREAM topic=topic key=key version=x message=m",
        b"APPEND_STREAM topic=topic key=key version=-1 message=m",
        b"APPEND_STREAM topic=topic key=key message=m",
        b"APPEND_STREAM topic=topic version=1 message=m",
        b"APPEND_STREAM key=key version=1 message=m",
        b"APPEND_STREAM topic=other key=key version=1 message=m",
        b"APPEND_STREAM topic=topic key=new version=1 message=m",
        b"APPEND_STREAM topic=topic key=key version=1 schema_version=4294967296 message=m",
        b"APPEND_STREAM topic=topic key=key version=1 colour=red message=m",
        b"APPEND_STREAM topic=topic key=key version=1 =x message=m",
        b"APPEND_STREAM topic=topic key=key version=1 stray message=m",
        b"APPEND_STREAM topic=topic key=key version=1 metadata=" + b"x" * 256 + b" message=m",
        b"APPEND_STREAM topic=topic key=key version=1 message="
        + b"x" * CURSUS_FAST_BATCH_BYTES_MAX,
    ],
)
def test_what_is_unusual_is_left_to_python(served: Served, body: bytes) -> None:
    served.heads.know(KEY, 0)

    served.assert_left_to_python(body)


def test_every_beginning_of_an_append_is_left_to_python(served: Served) -> None:
    served.heads.know(KEY, 0)
    body = APPEND % 1

    for size in range(1, body.index(b"message=") + len(b"message=")):
        served.assert_left_to_python(body[:size])


def test_streams_of_another_epoch_are_left_to_python(served: Served) -> None:
    served.heads = served.tables.begin(served.log, served.log.known_epoch + 1)
    served.heads.know(KEY, 0)

    served.assert_left_to_python(APPEND % 1)


def test_a_topic_without_streams_is_left_to_python(served: Served) -> None:
    served.heads.know(KEY, 0)
    served.configure(flags=0)

    served.assert_left_to_python(APPEND % 1)


def test_appends_are_left_to_python_while_there_is_no_memory_for_them(served: Served) -> None:
    served.heads.know(KEY, 0)
    served.heads.hold(10_000)
    served.assert_left_to_python(APPEND % 1)

    _, size = served.heads.take_recent()
    served.assert_left_to_python(APPEND % 1)
    served.tables.release(size)
    served.send(APPEND % 1)

    assert b"OK version=1 offset=0 " in served.client.frame()


def test_structured_errors_are_left_to_python(wire: Wire) -> None:
    state = SimpleNamespace(has_structured_errors=True, leader=None)
    served = Served(wire, 3, SimpleNamespace(state=state))
    served.heads.know(KEY, 0)

    served.assert_left_to_python(APPEND % 1)


def test_a_failed_sync_is_an_error(durable: Wire, recording: None) -> None:
    served = Served(durable, 1)
    served.log.configure(is_plain=False, protocol_flags=HAS_STREAMS)
    served.heads.know(KEY, 0)
    file_ops.fail("sync_data", ".log", errno.EIO)

    served.send(APPEND % 1)

    assert served.client.frame() == framed(
        b'ERROR: command_failed reason="the log of the partition has failed"'
    )
