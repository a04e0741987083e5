"""Fetches of replicas that lie, flood or hold more than they may: their cost is bounded."""

import random
from collections.abc import Iterator

import pytest

from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.kafka.replica_fetch import ReplicaSessions
from broker.model.limits import NATIVE_FETCH_PARTITIONS_MAX
from tests.support.native_log import Logs, records
from tests.support.native_replica import (
    LEADER,
    REPLICA,
    REPLICA_EPOCH,
    WAIT_MS,
    Replica,
    answered,
    errors,
    lead,
    wanted,
)
from tests.support.native_wire import Wire, fetch, partition

BATCH = records(2)
OUT_OF_RANGE, UNKNOWN, NOT_LEADER, UNKNOWN_SESSION, FENCED, AHEAD, UNKNOWN_TOPIC = (
    *(1, 3, 6, 70, 74, 75, 100),
)
MANY = NATIVE_FETCH_PARTITIONS_MAX
SESSIONS_MAX = 8
HELD_MAX = 2 * MANY


@pytest.fixture
def wire(logs: Logs, log: PartitionLog) -> Iterator[Wire]:
    """A poller of broker 1, which leads the partition 0 with a batch; its limits are low."""
    lead(log)
    log.append(BATCH)
    logs.turn.end()
    wire = Wire(logs, replicas=ReplicaSessions(SESSIONS_MAX, HELD_MAX))
    wire.table.brokers = {LEADER: 10, REPLICA: REPLICA_EPOCH}
    wire.serve(log)
    yield wire
    wire.close()


@pytest.fixture
def enemy(wire: Wire) -> Replica:
    """What says that it is broker 2."""
    return Replica(wire)


@pytest.mark.parametrize("offset", [-1, -(1 << 63), 3, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("last", [-1, 0])
def test_an_offset_that_the_log_does_not_have_acknowledges_nothing(
    wire: Wire, enemy: Replica, offset: int, last: int
) -> None:
    found = answered(enemy.ask(wanted(0, offset, last=last)))[0]

    if last == 0 and offset > 2:
        assert found["diverging_epoch"] == {"epoch": 0, "end_offset": 2}
    else:
        assert found["error_code"] == OUT_OF_RANGE
    assert wire.log().high_watermark == 0
    assert [each[2] for each in wire.log().replica_states()] == [-1]


@pytest.mark.parametrize(
    ("epoch", "last", "error"),
    [
        *[(1, 0, AHEAD), (0x7FFFFFFF, 0, AHEAD), (0, 1, OUT_OF_RANGE)],
        (0, 0x7FFFFFFF, OUT_OF_RANGE),
    ],
)
def test_an_epoch_that_the_log_does_not_have_acknowledges_nothing(
    wire: Wire, enemy: Replica, epoch: int, last: int, error: int
) -> None:
    assert errors(enemy.ask(wanted(0, 2, epoch=epoch, last=last))) == {0: error}
    assert wire.log().high_watermark == 0


@pytest.mark.parametrize("number", [-(1 << 31), -1, 1, (1 << 31) - 1])
def test_a_partition_that_cannot_be_is_unknown(enemy: Replica, number: int) -> None:
    assert errors(enemy.ask(wanted(number, 0))) == {number: UNKNOWN}


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0])
def test_limits_of_bytes_that_cannot_be_are_those_of_one_batch(enemy: Replica, size: int) -> None:
    found = answered(enemy.ask(wanted(0, 0, partition_max_bytes=size), max_bytes=size))
    assert len(found[0]["records"]) == len(BATCH)


def test_a_session_is_used_over_its_own_connection_only(wire: Wire, enemy: Replica) -> None:
    other = Replica(wire)
    other.ask(wanted(0, 0))
    enemy.session_id, enemy.session_epoch = other.session_id, other.session_epoch

    assert enemy.ask()["error_code"] == UNKNOWN_SESSION

    assert errors(other.ask(wanted(0, 2, last=0))) == {0: 0}


def test_sessions_above_their_number_are_none(wire: Wire) -> None:
    many = range(REPLICA, REPLICA + SESSIONS_MAX + 2)
    wire.table.brokers = dict.fromkeys(many, REPLICA_EPOCH)
    others = [Replica(wire, each) for each in many]

    given = [each.ask(wanted(0, 0))["session_id"] for each in others]

    assert given[SESSIONS_MAX:] == [0, 0]
    assert 0 not in given[:SESSIONS_MAX]
    assert len(wire.sessions.replicas) == SESSIONS_MAX


def test_partitions_above_the_limit_are_held_by_no_session_and_no_wait(wire: Wire) -> None:
    every = [wanted(number, 0) for number in range(MANY)]
    waiting = [Replica(wire) for _ in range(5)]
    for each in waiting:
        each.send(*every, session_epoch=-1, max_wait_ms=WAIT_MS, min_bytes=1 << 30)
        wire.run()

    assert wire.sessions.replicas.partitions <= HELD_MAX + MANY
    for each in waiting:
        each.client.close()
    wire.run()
    assert wire.sessions.replicas.partitions == 0


def test_as_many_partitions_as_a_request_may_name_are_added_and_forgotten(
    wire: Wire, enemy: Replica
) -> None:
    every = [*range(1, MANY)]
    found = enemy.ask(*(wanted(each, 0) for each in every))
    assert errors(found) == dict.fromkeys(every, UNKNOWN)
    random.Random(1).shuffle(every)

    found = enemy.ask(wanted(0, 0), forgotten=tuple(every[: MANY // 2]))

    assert list(answered(found)) == [0]
    assert wire.sessions.replicas.partitions == MANY - MANY // 2
    rest = every[MANY // 2 :]
    found = enemy.ask(*(wanted(each, 0) for each in rest))
    assert errors(found) == dict.fromkeys(rest, UNKNOWN)


def test_requests_that_arrive_all_at_once_are_answered_one_by_one(
    wire: Wire, enemy: Replica
) -> None:
    enemy.ask(wanted(0, 2, last=0), *(wanted(each, 0) for each in range(1, 1000)))
    flood = b""
    for _ in range(500):
        flood += enemy.request(max_wait_ms=WAIT_MS)
        enemy.session_epoch += 1

    enemy.client.send(flood)

    assert len(enemy.client.wait_frames(499)) >= 499
    consumer = wire.connect()
    assert partition(consumer.ask(fetch(13, (0, 0))))["error_code"] == 0


@pytest.mark.parametrize("replica_id", [LEADER, 3, 0x7FFFFFFF])
def test_somebody_elses_id_needs_the_epoch_of_its_registration(wire: Wire, replica_id: int) -> None:
    enemy = Replica(wire, replica_id, REPLICA_EPOCH)
    assert enemy.ask(wanted(0, 2, last=0))["error_code"] == 77
    assert wire.log().high_watermark == 0


def test_a_connection_that_sends_half_a_request_holds_no_other(wire: Wire, enemy: Replica) -> None:
    enemy.ask(wanted(0, 0))
    enemy.send(wanted(0, 2, last=0), max_wait_ms=WAIT_MS)
    assert enemy.is_waiting
    enemy.client.send(enemy.request()[:7])
    assert enemy.answer()["error_code"] == 0

    other = Replica(wire)

    assert errors(other.ask(wanted(0, 2, last=0))) == {0: 0}
