"""Appends that wait for the version of their stream: their order; nothing is done twice."""

import errno
import socket
from types import SimpleNamespace

import pytest

from broker._native.kernel import file_ops
from broker._native.log.permissions import WRITE, PermissionEpoch, Permissions
from broker._native.protocols.cursus.batch import fnv_1a_64
from broker._native.protocols.cursus.produce import HAS_STREAMS
from broker._native.wire.quota import ClientQuota, QuotaBucket
from broker.codec import records
from broker.model.stream_limits import (
    EVENT_KEY_BYTES_MAX,
    STREAMS_FORESEEN_MAX,
    STREAMS_LOOKED_UP_PER_STATEMENT,
)
from tests.native.protocols.cursus.served_appends import APPEND, KEY, Served, framed
from tests.support.native_replica import lead
from tests.support.native_wire import Client, Wire

MANY = 1_000
LARGE = b"x" * 200_000  # a frame of it has a buffer of its own
WINDOW_S = 1_000
SAME = fnv_1a_64(KEY) % 3
KEYS = [key for n in range(99) if fnv_1a_64(key := b"k%d" % n) % 3 == SAME]  # in one partition


def append(key: bytes, version: int) -> bytes:
    """Return an append to another stream."""
    return (APPEND % version).replace(b"key=key", b"key=" + key)


class Asked(Served):
    """One of whose streams nobody knows anything, until the test tells it."""

    def __init__(self, wire: Wire, partitions: int, session: object = None) -> None:
        super().__init__(wire, partitions, session)
        self.logs: list[object] = []
        self.tables.when_unknown = self.logs.append

    @property
    def keys(self) -> list[bytes]:
        """The streams that are waited for."""
        return [each.key for each in self.heads.first_lookups(MANY)]

    def end_lookups(self, versions: dict[bytes, int] | None = None) -> None:
        """Let those that wait go on, with these versions in memory."""
        for key, version in (versions or {}).items():
            self.heads.know(key, version)
        self.heads.end_lookups(self.heads.first_lookups(MANY))
        self.wire.run()

    def answer_in_python(self, client: Client, answer: bytes) -> bytes:
        """Answer the one request that was left to Python; return its body."""
        [pending] = self.wire.slow
        self.wire.slow.clear()
        body = pending.take_body()
        assert body is not None
        pending.send(answer)
        self.wire.run()
        assert client.frame() == framed(answer)
        return body

    def expected(self, version: int, offset: int) -> bytes:
        """Return the answer to an append."""
        answer = b"OK version=%d offset=%d partition=%d"
        return framed(answer % (version, offset, self.log.partition))


@pytest.fixture
def asked(wire: Wire) -> Asked:
    return Asked(wire, 3)


def test_an_append_waits_for_the_version_of_its_stream(asked: Asked) -> None:
    asked.send(APPEND % 5)
    assert (asked.keys, asked.logs, asked.client.frames()) == ([KEY], [asked.log], [])

    asked.end_lookups({KEY: 4})

    assert asked.client.frame() == asked.expected(5, 0)
    assert asked.heads.recent == {KEY: [4, 0]}
    assert (asked.keys, asked.wire.slow) == ([], [])
    asked.send(APPEND % 6)
    assert asked.client.frame() == asked.expected(6, 1)
    assert asked.logs == [asked.log]


def test_the_first_event_of_a_stream_waits_if_the_key_may_have_one(asked: Asked) -> None:
    asked.send(APPEND % 1)

    asked.end_lookups({KEY: 0})

    assert asked.client.frame() == asked.expected(1, 0)


def test_later_requests_are_answered_in_order_after_one_that_waits(asked: Asked) -> None:
    other = KEYS[0]
    appends = (APPEND % 3, APPEND % 4, append(other, 8), APPEND % 5)

    asked.client.send(b"".join(map(framed, (*appends, b"HELP"))))
    assert asked.keys == [KEY]
    asked.end_lookups({KEY: 2})
    assert asked.keys == [other]
    assert asked.client.frames() == [asked.expected(3, 0), asked.expected(4, 1)]
    asked.end_lookups({other: 7})

    assert asked.client.frames() == [asked.expected(8, 2), asked.expected(5, 3)]
    assert asked.answer_in_python(asked.client, b"help") == b"HELP"
    [*found] = records(asked.log.read(0, 1 << 20))
    assert [each.key for each in found] == [KEY, KEY, other, KEY]


def test_earlier_answers_are_sent_while_an_append_waits(asked: Asked) -> None:
    asked.heads.know(KEY, 0)

    asked.client.send(framed(APPEND % 1) + framed((APPEND % 1).replace(b"key=key", b"key=k4")))

    assert asked.client.frames() == [asked.expected(1, 0)]


def test_many_that_wait_are_told_once(asked: Asked) -> None:
    clients = [asked.wire.connect() for _ in range(3)]
    for client in clients:
        client.send(framed(APPEND % 2))
    assert (asked.keys, asked.logs) == ([KEY] * 3, [asked.log])
    assert [each.key for each in asked.heads.first_lookups(2)] == [KEY] * 2

    asked.end_lookups({KEY: 1})

    answers = [client.frames() for client in clients]
    assert answers == [[asked.expected(2, 0)], [], []]
    assert len(asked.wire.slow) == 2  # they conflict, which Python tells
    assert asked.log.log_end_offset == 1
    for pending in asked.wire.slow:
        pending.send(None)


def test_the_streams_of_later_appends_are_foreseen(asked: Asked) -> None:
    asked.heads.keys.complete()
    asked.heads.append(KEYS[2], 1, 0)
    asked.heads.forget_versions(MANY)
    asked.heads.know(KEYS[1], 0)
    appends = [(KEYS[0], 4), (KEYS[1], 1), (KEYS[2], 1), (KEYS[3], 1), (KEYS[4], 2), (KEYS[0], 5)]

    asked.client.send(b"".join(framed(append(*each)) for each in appends))

    assert asked.keys == [KEYS[0]]  # it waits
    # The second is known, the fourth surely new.
    assert list(asked.heads.take_foreseen()) == [KEYS[2], KEYS[4], KEYS[0]]
    assert (asked.client.frames(), asked.wire.slow, asked.logs) == ([], [], [asked.log])
    asked.end_lookups({KEYS[0]: 3, KEYS[2]: 0, KEYS[4]: 1})
    answers = [asked.expected(version, place) for place, (_, version) in enumerate(appends)]
    assert asked.client.frames() == answers
    assert not asked.heads.take_foreseen()


def test_streams_of_other_partitions_are_foreseen(wire: Wire) -> None:
    asked = Asked(wire, 3)
    other_log = wire.log((SAME + 1) % 3)
    other_log.configure(is_plain=False, is_group_commit=False, protocol_flags=HAS_STREAMS)
    other = asked.tables.begin(other_log, other_log.known_epoch)
    there = next(key for n in range(99) if fnv_1a_64(key := b"o%d" % n) % 3 == (SAME + 1) % 3)

    asked.client.send(framed(append(KEYS[0], 4)) + framed(append(there, 2)) * 2)

    assert asked.logs == [asked.log, other_log]
    assert list(other.take_foreseen()) == [there]
    assert other.first_lookups(MANY) == []


def test_no_more_is_foreseen_than_a_limit_and_than_what_is_whole(asked: Asked) -> None:
    keys = [b"%s%d" % (KEYS[0], n) for n in range(9 * STREAMS_FORESEEN_MAX)]
    keys = [key for key in keys if fnv_1a_64(key) % 3 == SAME]
    appends = b"".join(framed(append(key, 2)) for key in keys)

    asked.client.send(framed(append(KEYS[0], 4)) + appends)
    assert list(asked.heads.take_foreseen()) == keys[:STREAMS_FORESEEN_MAX]
    other = asked.wire.connect()
    other.send(
        framed(append(KEYS[0], 4)) + framed(append(KEYS[1], 2)) + framed(append(KEYS[2], 2))[:-1]
    )
    assert list(asked.heads.take_foreseen()) == [KEYS[1]]
    many = [
        asked.wire.connect()
        for _ in range(STREAMS_LOOKED_UP_PER_STATEMENT // STREAMS_FORESEEN_MAX + 1)
    ]
    for number, client in enumerate(many):
        mine = [b"%s%d" % (key, number) for key in keys]
        mine = [key for key in mine if fnv_1a_64(key) % 3 == SAME]
        client.send(framed(append(KEYS[0], 4)) + b"".join(framed(append(key, 2)) for key in mine))
    assert len(asked.heads.take_foreseen()) <= STREAMS_LOOKED_UP_PER_STATEMENT


def test_what_is_no_append_ends_what_is_foreseen(asked: Asked) -> None:
    asked.client.send(
        framed(append(KEYS[0], 4))
        + framed(append(KEYS[1], 2))
        + framed(b"HELP")
        + framed(append(KEYS[2], 2))
    )

    assert list(asked.heads.take_foreseen()) == [KEYS[1]]


def test_a_conflict_is_left_to_python_once_it_is_known(asked: Asked) -> None:
    asked.send(APPEND % 5)

    asked.end_lookups({KEY: 7})

    assert asked.answer_in_python(asked.client, b"conflict") == APPEND % 5
    assert asked.log.log_end_offset == 0


def test_a_version_that_is_forgotten_again_is_left_to_python(asked: Asked) -> None:
    """Otherwise it might be looked up for ever."""
    asked.send(APPEND % 5)
    asked.heads.know(KEY, 4)
    asked.heads.end_lookups(asked.heads.first_lookups(MANY))
    asked.heads.forget_versions(MANY)
    asked.wire.run()

    assert asked.keys == []
    assert asked.answer_in_python(asked.client, b"OK") == APPEND % 5
    asked.send(APPEND % 6)  # but the next one waits
    assert asked.keys == [KEY]
    asked.end_lookups({KEY: 5})
    assert asked.client.frame() == asked.expected(6, 0)


def test_a_version_that_cannot_be_read_is_left_to_python(asked: Asked) -> None:
    asked.send(APPEND % 5)

    asked.end_lookups()

    assert asked.answer_in_python(asked.client, b"ERROR") == APPEND % 5


def test_streams_that_end_meanwhile_are_left_to_python(asked: Asked) -> None:
    asked.send(APPEND % 5)
    heads, lookups = asked.heads, asked.heads.first_lookups(MANY)
    asked.tables.end(asked.log)
    heads.know(KEY, 4)
    heads.end_lookups(lookups)
    asked.wire.run()

    assert asked.answer_in_python(asked.client, b"ERROR") == APPEND % 5


def test_streams_of_a_later_epoch_are_asked_no_second_time(asked: Asked) -> None:
    asked.send(APPEND % 5)
    lookups = asked.heads.first_lookups(MANY)
    lead(asked.log, epoch=4)
    asked.heads = asked.tables.begin(asked.log, asked.log.known_epoch)
    asked.heads.end_lookups(lookups)
    asked.wire.run()

    assert asked.keys == []
    assert asked.answer_in_python(asked.client, b"OK") == APPEND % 5


def test_a_log_that_is_led_elsewhere_meanwhile_is_left_to_python(asked: Asked) -> None:
    asked.send(APPEND % 5)
    asked.log.stop_accepting()

    asked.end_lookups({KEY: 4})

    assert asked.answer_in_python(asked.client, b"NOT_LEADER") == APPEND % 5
    assert asked.log.log_end_offset == 0


def test_a_topic_that_is_deleted_meanwhile_is_left_to_python(asked: Asked) -> None:
    asked.send(APPEND % 5)
    asked.wire.table.remove("topic")

    asked.end_lookups({KEY: 4})

    assert asked.answer_in_python(asked.client, b"ERROR") == APPEND % 5


def test_who_may_write_no_more_is_left_to_python(wire: Wire) -> None:
    epoch = PermissionEpoch()
    known = Permissions(epoch, wire.table)
    known.allow("topic", WRITE)
    wire.poller.authorizes = True
    asked = Asked(wire, 3, SimpleNamespace(permissions=known, state=None))
    asked.send(APPEND % 5)
    assert asked.keys == [KEY]
    epoch.advance()

    asked.end_lookups({KEY: 4})

    assert asked.answer_in_python(asked.client, b"ERROR") == APPEND % 5


def test_without_memory_for_events_an_append_is_left_to_python(asked: Asked) -> None:
    asked.send(APPEND % 5)
    asked.heads.hold(10_000)

    asked.end_lookups({KEY: 4})

    assert asked.answer_in_python(asked.client, b"ERROR") == APPEND % 5
    asked.assert_left_to_python(APPEND % 5)
    assert asked.keys == []


@pytest.mark.parametrize("key", [b"x" * (EVENT_KEY_BYTES_MAX + 1), b"k\0y"])
@pytest.mark.parametrize("version", [1, 2])
def test_an_invalid_key_is_not_looked_up(durable: Wire, key: bytes, version: int) -> None:
    asked = Asked(durable, 1)

    asked.assert_left_to_python(
        b"APPEND_STREAM topic=topic key=%s version=%d message=m" % (key, version)
    )
    assert asked.keys == []


def test_an_append_of_a_closed_connection_is_not_carried_out(asked: Asked) -> None:
    other = asked.wire.connect()
    asked.send(APPEND % 5)
    other.send(framed(APPEND % 5))
    [first, _] = asked.heads.first_lookups(MANY)
    asked.client.connection.abort("closed by a test")
    assert asked.keys == [KEY]

    asked.heads.know(KEY, 4)
    asked.heads.end_lookups([first, *asked.heads.first_lookups(MANY)])
    asked.wire.run()

    assert other.frame() == asked.expected(5, 0)
    assert asked.log.log_end_offset == 1


def test_when_all_have_closed_the_next_one_is_told_again(asked: Asked) -> None:
    asked.send(APPEND % 5)
    asked.client.connection.abort("closed by a test")
    assert asked.keys == []

    asked.wire.connect().send(framed(APPEND % 5))

    assert (asked.keys, asked.logs) == ([KEY], [asked.log] * 2)


def test_a_peer_that_sends_nothing_more_gets_its_answer(asked: Asked) -> None:
    asked.send(APPEND % 5)
    asked.client.socket.shutdown(socket.SHUT_WR)
    asked.wire.run()

    asked.end_lookups({KEY: 4})

    assert asked.client.frame() == asked.expected(5, 0)
    assert asked.client.is_closed


def test_a_frame_that_comes_in_parts_is_served_once_it_is_whole(asked: Asked) -> None:
    frame = framed(APPEND % 5 + LARGE)
    asked.client.send(frame[:100_000])
    assert asked.keys == []

    asked.client.send(frame[100_000:] + framed(APPEND % 6))
    asked.end_lookups({KEY: 4})

    assert asked.client.wait_frames(2) == [asked.expected(5, 0), asked.expected(6, 1)]
    [first, _] = records(asked.log.read(0, 1 << 20))
    assert bytes(first.value or b"").endswith(LARGE)
    assert asked.wire.poller.input_bytes == 0


def test_the_stop_of_a_broker_waits_for_a_lookup(asked: Asked) -> None:
    asked.send(APPEND % 5)
    asked.wire.poller.stop_streams()
    assert asked.wire.poller.has_pending_replies

    asked.end_lookups({KEY: 4})

    assert asked.client.frame() == asked.expected(5, 0)
    assert not asked.wire.poller.has_pending_replies


def test_an_append_that_waits_is_counted_once(asked: Asked) -> None:
    """With a quota that it does not reach, but would if it counted twice."""
    burst = 1.5 * len(framed(APPEND % 5))
    bucket = QuotaBucket(burst / WINDOW_S, 2, WINDOW_S * 1_000)
    assert bucket.burst == pytest.approx(burst)
    quota = ClientQuota(None, 1, writes=bucket)
    asked.wire.poller.limit_clients(lambda *_: quota, 1)

    asked.send(APPEND % 5)
    asked.end_lookups({KEY: 4})

    assert asked.client.frame() == asked.expected(5, 0)
    assert asked.cursus.requests == 1
    asked.assert_left_to_python(b"HELP")  # it is served: the connection is not mute


def test_a_failed_sync_is_an_error_for_one_that_has_waited(durable: Wire, recording: None) -> None:
    asked = Asked(durable, 1)
    asked.log.configure(is_plain=False, protocol_flags=HAS_STREAMS)
    asked.send(APPEND % 1)
    file_ops.fail("sync_data", ".log", errno.EIO)

    asked.end_lookups({KEY: 0})

    assert asked.client.frame() == framed(
        b'ERROR: command_failed reason="the log of the partition has failed"'
    )
