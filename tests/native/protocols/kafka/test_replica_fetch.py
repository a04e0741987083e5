"""A Fetch of another broker, which copies partitions, on the native path."""

import time

import pytest

from broker._native.log.partition_log import PartitionLog
from broker.model.limits import REPLICA_NEWS_DELAY_MS
from tests.support.native_log import Logs, placed, records
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
from tests.support.native_wire import Wire, base_offset, fetch, partition, produce

BATCH = records(2)
OTHER_ID = b"another id, 16 b"


@pytest.fixture
def cluster(wire: Wire) -> Wire:
    """A poller of broker 1, which leads partitions 0 to 2; broker 2 has replicas of them."""
    wire.table.brokers = {LEADER: 10, REPLICA: REPLICA_EPOCH}
    for number in range(3):
        lead(wire.log(number))
    return wire


@pytest.fixture
def replica(cluster: Wire) -> Replica:
    """Broker 2."""
    return Replica(cluster)


def write(wire: Wire, number: int, *, acks: int = 1) -> int:
    """Write a batch of two records; return its base offset."""
    return base_offset(wire.connect(), produce(9, (number, BATCH), acks=acks))


def test_a_replica_reads_above_the_high_watermark(cluster: Wire, replica: Replica) -> None:
    write(cluster, 0)

    found = answered(replica.ask(wanted(0, 0)))[0]

    assert found["records"] == placed(BATCH, 0)
    assert (found["error_code"], found["high_watermark"], found["log_start_offset"]) == (0, 0, 0)
    assert not cluster.slow


def test_a_consumer_reads_up_to_the_high_watermark_only(cluster: Wire) -> None:
    write(cluster, 0)

    found = partition(cluster.connect().ask(fetch(13, (0, 0))))

    assert (found["records"], found["high_watermark"]) == (b"", 0)


def test_the_offset_of_a_fetch_acknowledges_everything_before_it(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 0))

    found = answered(replica.ask(wanted(0, 2, last=0)))[0]

    assert found["high_watermark"] == 2
    assert cluster.log().high_watermark == 2
    assert cluster.log().replica_states()[0][:3] == (REPLICA, REPLICA_EPOCH, 2)


def test_a_partition_that_does_not_change_is_not_in_the_answer(
    cluster: Wire, replica: Replica
) -> None:
    assert list(answered(replica.ask(wanted(0, 0), wanted(1, 0), wanted(2, 0)))) == [0, 1, 2]

    assert replica.ask()["responses"] == []
    write(cluster, 1)
    assert list(answered(replica.ask())) == [1]


def test_a_fetch_waits_until_there_is_something_to_copy(cluster: Wire, replica: Replica) -> None:
    replica.ask(wanted(0, 0), wanted(1, 0))
    replica.send(max_wait_ms=WAIT_MS)
    assert replica.is_waiting

    write(cluster, 1)

    assert answered(replica.answer())[1]["records"] == placed(BATCH, 0)


def test_a_fetch_that_waits_is_answered_when_the_next_one_arrives(replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    replica.send(max_wait_ms=WAIT_MS)
    assert replica.is_waiting

    replica.send(wanted(1, 0), max_wait_ms=WAIT_MS)

    assert replica.answer()["responses"] == []
    assert replica.is_waiting
    replica.send()
    assert [replica.take(frame)["error_code"] for frame in replica.client.wait_frames(2)] == [0, 0]


def test_two_fetches_that_arrive_together_are_answered_in_order(
    cluster: Wire, replica: Replica
) -> None:
    replica.ask(wanted(0, 0))
    first = replica.request(max_wait_ms=WAIT_MS)
    replica.session_epoch += 1
    second = replica.request(wanted(1, 0))
    replica.session_epoch += 1

    replica.client.send(first + second)

    bodies = [replica.take(frame) for frame in replica.client.wait_frames(2)]
    assert [list(answered(body)) for body in bodies] == [[], [1]]
    write(cluster, 0)
    assert list(answered(replica.ask())) == [0]


def test_the_start_of_a_fetch_answers_the_one_that_waits(replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    replica.send(max_wait_ms=WAIT_MS)
    data = replica.request()

    replica.client.send(data[:3])

    assert replica.answer()["responses"] == []
    replica.session_epoch += 1
    replica.client.send(data[3:])
    assert replica.answer()["error_code"] == 0


def another_replica(cluster: Wire) -> Replica:
    """Return broker 3, which has a replica of partition 0, too."""
    cluster.table.brokers = {REPLICA: REPLICA_EPOCH, 3: 71}
    cluster.log().lead(0, LEADER, [LEADER, REPLICA, 3], [LEADER, REPLICA, 3])
    return Replica(cluster, 3, 71)


def test_a_high_watermark_that_moves_ends_a_wait_a_short_time_later(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    other = another_replica(cluster)
    replica.ask(wanted(0, 2, last=0))
    replica.send(max_wait_ms=WAIT_MS)
    assert replica.is_waiting

    other.ask(wanted(0, 2, last=0))

    begun = time.monotonic()
    assert replica.is_waiting
    assert answered(replica.answer())[0]["high_watermark"] == 2
    assert time.monotonic() - begun > REPLICA_NEWS_DELAY_MS / 2000


def test_a_replica_that_follows_in_another_epoch_hears_the_high_watermark_again(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    assert answered(replica.ask(wanted(0, 2, last=0)))[0]["high_watermark"] == 2
    lead(cluster.log(), epoch=1)

    replica.send(wanted(0, 2, epoch=1, last=0), max_wait_ms=WAIT_MS)

    assert answered(replica.answer())[0]["high_watermark"] == 2


def test_the_replica_that_moves_the_high_watermark_hears_of_it_a_short_time_later(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 0))
    cluster.log().set_isr([LEADER, REPLICA], 1)
    cluster.log().configure(is_group_commit=False, min_isr=2)
    replica.ask(wanted(0, 2, last=0))
    replica.send(max_wait_ms=WAIT_MS)
    cluster.log().set_isr([LEADER, REPLICA], 2)

    assert answered(replica.answer())[0]["high_watermark"] == 2
    replica.send(max_wait_ms=WAIT_MS)
    assert replica.is_waiting
    time.sleep(2 * REPLICA_NEWS_DELAY_MS / 1000)
    assert replica.is_waiting


def test_a_high_watermark_that_moves_is_in_an_answer_with_records(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    other = another_replica(cluster)
    replica.ask(wanted(0, 2, last=0), wanted(1, 0))
    replica.send(max_wait_ms=WAIT_MS)
    other.ask(wanted(0, 2, last=0))
    write(cluster, 1)

    found = answered(replica.answer())

    assert found[0]["high_watermark"] == 2
    assert found[1]["records"] == placed(BATCH, 0)


def test_a_high_watermark_that_moves_does_not_end_a_wait_at_once(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    other = another_replica(cluster)
    replica.ask(wanted(0, 2, last=0))
    replica.send(max_wait_ms=WAIT_MS)

    other.ask(wanted(0, 2, last=0))

    assert cluster.log().high_watermark == 2
    assert replica.is_waiting
    replica.send()
    first, second = (answered(replica.take(each)) for each in replica.client.wait_frames(2))
    assert first[0]["high_watermark"] == 2
    assert second == {}


def test_a_wait_ends_after_its_time_with_the_high_watermarks_that_have_moved(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    cluster.log().set_isr([LEADER, REPLICA], 1)
    cluster.log().configure(is_group_commit=False, min_isr=2)
    replica.ask(wanted(0, 2, last=0))
    replica.send(max_wait_ms=20)
    cluster.log().set_isr([LEADER, REPLICA], 2)

    assert answered(replica.answer())[0]["high_watermark"] == 2


def test_records_are_sent_once_until_the_replica_names_the_partition_again(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 0))

    assert answered(replica.ask()) == {}
    write(cluster, 0)
    assert answered(replica.ask()) == {}
    assert answered(replica.ask(wanted(0, 0)))[0]["records"] == placed(BATCH, 0) + placed(BATCH, 2)
    assert answered(replica.ask(wanted(0, 4, last=0)))[0]["records"] == b""


def test_an_answer_is_as_large_as_the_request_allows(cluster: Wire, replica: Replica) -> None:
    for number in range(3):
        write(cluster, number)

    body = replica.ask(wanted(0, 0), wanted(1, 0), wanted(2, 0), max_bytes=1)

    found = answered(body)
    assert [bool(found[number]["records"]) for number in range(3)] == [True, False, False]
    found = answered(replica.ask(wanted(0, 2, last=0), max_bytes=1))
    assert found[1]["records"] == placed(BATCH, 0)


def test_the_bytes_that_an_answer_must_have_are_waited_for(cluster: Wire, replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    replica.send(max_wait_ms=WAIT_MS, min_bytes=len(BATCH) + 1)

    write(cluster, 0)
    assert replica.is_waiting
    write(cluster, 0)

    assert answered(replica.answer())[0]["records"] == placed(BATCH, 0) + placed(BATCH, 2)


# ---- errors of partitions ------------------------------------------------------------------------


def test_a_topic_or_partition_that_is_not_known_is_an_error_of_the_partition(
    replica: Replica,
) -> None:
    assert errors(replica.ask(wanted(0, 0), wanted(7, 0))) == {0: 0, 7: 3}
    assert errors(replica.ask(wanted(0, 0), topic_id=OTHER_ID)) == {0: 100}
    assert replica.ask()["error_code"] == 0


def test_a_partition_that_is_led_elsewhere_is_served_as_soon_as_it_is_led_here(
    cluster: Wire, replica: Replica
) -> None:
    logs = [cluster.log(number) for number in range(3)]
    write(cluster, 1)
    cluster.serve(logs[0], None, logs[2])
    assert errors(replica.ask(wanted(0, 0), wanted(1, 0))) == {0: 0, 1: 6}
    assert replica.ask()["responses"] == []  # it was told

    cluster.serve(*logs)

    assert answered(replica.ask())[1]["records"] == placed(BATCH, 0)


def test_an_error_is_sent_again_when_the_partition_is_named_again(replica: Replica) -> None:
    assert errors(replica.ask(wanted(7, 0))) == {7: 3}
    assert errors(replica.ask()) == {}

    assert errors(replica.ask(wanted(7, 0))) == {7: 3}


def test_another_leader_epoch_is_refused(cluster: Wire, replica: Replica) -> None:
    lead(cluster.log(), epoch=5)

    assert errors(replica.ask(wanted(0, 0, epoch=4))) == {0: 74}
    assert errors(replica.ask(wanted(0, 0, epoch=6))) == {0: 75}
    assert errors(replica.ask(wanted(0, 0, epoch=5))) == {0: 0}


def test_a_new_leader_epoch_answers_the_fetch_that_waits(cluster: Wire, replica: Replica) -> None:
    replica.ask(wanted(0, 0), wanted(1, 0))
    replica.send(max_wait_ms=WAIT_MS)

    cluster.log(1).follow(1)
    cluster.run()

    assert errors(replica.answer()) == {1: 6}


def test_the_position_of_a_replica_that_was_none_for_a_moment_is_noted_again(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 2, last=0))
    replica.ask()

    cluster.log().lead(0, LEADER, [LEADER, 3], [LEADER])
    cluster.log().lead(0, LEADER, [LEADER, REPLICA], [LEADER])

    assert replica.ask()["error_code"] == 0
    assert cluster.log().replica_states()[0][2] == 2


@pytest.mark.parametrize("is_waiting", [False, True])
def test_positions_are_noted_again_when_the_log_leads_again_in_its_epoch(
    cluster: Wire, replica: Replica, *, is_waiting: bool
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 2, last=0))
    replica.ask()
    if is_waiting:
        replica.send(max_wait_ms=WAIT_MS)
        assert replica.is_waiting

    # A leader is fenced while its lease is in doubt.
    cluster.log().follow(0)
    lead(cluster.log())
    assert cluster.log().replica_states()[0][2] == -1
    replica.send()

    for frame in replica.client.wait_frames(1 + is_waiting):
        assert errors(replica.take(frame)) == {}
    assert cluster.log().replica_states()[0][2] == 2


def test_an_offset_outside_of_the_log_is_not_noted(cluster: Wire, replica: Replica) -> None:
    write(cluster, 0)

    assert errors(replica.ask(wanted(0, 3))) == {0: 1}
    assert cluster.log().replica_states()[0][2] == -1


def test_a_replica_that_ends_before_the_log_begins_is_told_where_it_begins(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 2, last=0))
    cluster.log().move_log_start(2)

    found = answered(replica.ask(wanted(0, 1, last=0)))[0]

    assert (found["error_code"], found["log_start_offset"]) == (1, 2)


def test_a_replica_begins_with_the_whole_batch_that_has_the_log_start(
    cluster: Wire, replica: Replica
) -> None:
    write(cluster, 0)
    write(cluster, 0)
    replica.ask(wanted(0, 4, last=0))
    cluster.log().move_log_start(3)

    refused = answered(replica.ask(wanted(0, 1, last=0)))[0]
    found = answered(replica.ask(wanted(0, 2)))[0]

    assert (refused["error_code"], refused["log_start_offset"]) == (1, 2)
    assert (found["error_code"], found["log_start_offset"]) == (0, 3)
    assert found["records"] == placed(BATCH, 2)


def test_a_log_start_that_moves_is_in_the_next_answer(cluster: Wire, replica: Replica) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 2, last=0))
    cluster.log().move_log_start(2)

    assert answered(replica.ask())[0]["log_start_offset"] == 2


def test_a_log_start_that_moves_ends_the_wait(cluster: Wire, replica: Replica) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 2, last=0), wanted(1, 0))
    replica.send(max_wait_ms=WAIT_MS)
    assert replica.is_waiting

    cluster.log().move_log_start(1)

    found = answered(replica.answer())
    assert {number: each["log_start_offset"] for number, each in found.items()} == {0: 1}


def test_a_broker_without_a_replica_of_the_partition_is_refused(cluster: Wire) -> None:
    cluster.table.brokers = {9: 90}

    assert errors(Replica(cluster, 9, 90).ask(wanted(0, 0))) == {0: 75}


@pytest.mark.parametrize(("broker_id", "epoch"), [(REPLICA, REPLICA_EPOCH - 1), (9, 1)])
def test_a_registration_that_is_not_known_is_refused(
    cluster: Wire, broker_id: int, epoch: int
) -> None:
    body = Replica(cluster, broker_id, epoch).ask(wanted(0, 0))

    assert (body["error_code"], body["session_id"], body["responses"]) == (77, 0, [])
    assert cluster.log().replica_states()[0][2] == -1


def test_a_session_ends_with_the_registration_of_its_replica(
    cluster: Wire, replica: Replica
) -> None:
    replica.ask(wanted(0, 0))

    cluster.table.brokers = {REPLICA: REPLICA_EPOCH + 1}

    assert replica.ask()["error_code"] == 77


def test_a_standalone_broker_leaves_a_replica_to_python(wire: Wire) -> None:
    replica = Replica(wire)

    replica.send(wanted(0, 0))

    assert len(wire.slow) == 1


def test_a_replica_that_does_not_tell_its_broker_epoch_is_left_to_python(cluster: Wire) -> None:
    cluster.connect().send(fetch(12, (0, 0), replica_id=REPLICA))

    assert len(cluster.slow) == 1


# ---- diverging logs ------------------------------------------------------------------------------


@pytest.fixture
def elected(cluster: Wire) -> PartitionLog:
    """Partition 0: offsets 0 to 3 in epoch 0, 4 and 5 in epoch 3."""
    write(cluster, 0)
    write(cluster, 0)
    log = cluster.log()
    lead(log, epoch=3)
    write(cluster, 0)
    return log


@pytest.mark.parametrize(
    ("offset", "last", "end"), [(6, 0, (0, 4)), (9, 2, (0, 4)), (4, 1, (0, 4)), (7, 3, (3, 6))]
)
def test_a_replica_with_other_records_gets_the_end_of_the_last_common_epoch(
    elected: PartitionLog, replica: Replica, offset: int, last: int, end: tuple[int, int]
) -> None:
    found = answered(replica.ask(wanted(0, offset, epoch=3, last=last)))[0]

    diverging = found["diverging_epoch"]
    assert (diverging["epoch"], diverging["end_offset"]) == end
    assert (found["error_code"], found["records"]) == (0, b"")
    assert elected.replica_states()[0][2] == -1


def test_a_divergence_is_sent_once_until_the_replica_has_truncated(
    elected: PartitionLog, replica: Replica
) -> None:
    replica.ask(wanted(0, 6, epoch=3, last=0))

    assert replica.ask()["responses"] == []
    found = answered(replica.ask(wanted(0, 4, epoch=3, last=0)))[0]

    assert found["records"] == placed(BATCH, 4, 3)
    assert found["diverging_epoch"]["epoch"] == -1
    assert elected.replica_states()[0][2] == 4


def test_a_last_epoch_that_the_leader_does_not_know_is_out_of_range(
    elected: PartitionLog, replica: Replica
) -> None:
    assert errors(replica.ask(wanted(0, 4, epoch=3, last=4))) == {0: 1}
    assert elected.replica_states()[0][2] == -1


def test_a_replica_that_cannot_be_compared_begins_anew_with_the_first_whole_batch(
    elected: PartitionLog, replica: Replica
) -> None:
    replica.ask(wanted(0, 6, epoch=3, last=3))
    elected.move_log_start(5)
    elected.set_isr([1], 1)

    # All that the leader had of epoch 0 is deleted.
    within = answered(replica.ask(wanted(0, 5, epoch=3, last=0)))[0]
    there = answered(replica.ask(wanted(0, 4, epoch=3, last=0)))[0]

    diverging = within["diverging_epoch"]
    assert (diverging["epoch"], diverging["end_offset"]) == (0, 4)
    assert (there["error_code"], there["log_start_offset"]) == (1, 4)

    anew = answered(replica.ask(wanted(0, 4, epoch=3, last=0, log_start_offset=4)))[0]

    assert (anew["error_code"], anew["records"]) == (0, placed(BATCH, 4, 3))


# ---- sessions ------------------------------------------------------------------------------------


def test_partitions_are_added_to_and_removed_from_a_session(
    cluster: Wire, replica: Replica
) -> None:
    replica.ask(wanted(0, 0), wanted(1, 0))
    for number in range(3):
        write(cluster, number)

    assert list(answered(replica.ask(wanted(2, 0), forgotten=(0,)))) == [1, 2]
    assert replica.ask(forgotten=(1, 2))["responses"] == []
    assert cluster.sessions.replicas.partitions == 0


def test_a_session_takes_many_partitions(cluster: Wire, replica: Replica) -> None:
    for first in range(0, 500, 100):
        replica.ask(*(wanted(number, 0) for number in range(first, first + 100)))

    assert cluster.sessions.replicas.partitions == 500
    write(cluster, 2)
    assert list(answered(replica.ask())) == [2]


def test_the_sessions_of_consumers_do_not_limit_those_of_replicas(
    cluster: Wire, replica: Replica
) -> None:
    client = cluster.connect()
    for _ in range(4):
        client.ask(fetch(13, (0, 0), session_epoch=0))

    replica.ask(wanted(0, 0))

    assert replica.session_id > 0
    assert (len(cluster.sessions), len(cluster.sessions.replicas)) == (3, 1)


def test_a_new_session_of_a_connection_ends_its_last_one(cluster: Wire, replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    old = replica.session_id
    replica.session_id = replica.session_epoch = 0

    replica.ask(wanted(0, 0))

    assert replica.session_id not in {0, old}
    assert len(cluster.sessions.replicas) == 1


def test_a_new_session_ends_those_of_closed_connections(cluster: Wire, replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    replica.client.close()

    Replica(cluster).ask(wanted(0, 0))

    assert len(cluster.sessions.replicas) == 1
    assert cluster.sessions.replicas.partitions == 1


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_new_session_of_a_replica_ends_its_last_one_over_another_connection(
    cluster: Wire, replica: Replica, *, is_waiting: bool
) -> None:
    write(cluster, 0)
    replica.ask(wanted(0, 0))
    if is_waiting:
        replica.send(max_wait_ms=WAIT_MS)
        assert replica.is_waiting
    later = Replica(cluster)
    later.ask(wanted(0, 2, last=0))

    # What the network has held up since before the replica gave its connection up.
    replica.send(wanted(0, 0))

    late = [replica.take(each)["error_code"] for each in replica.client.wait_frames(1 + is_waiting)]
    assert late == [0] * is_waiting + [70]
    assert cluster.log().replica_states()[0][2] == 2
    assert len(cluster.sessions.replicas) == 1
    assert later.ask()["error_code"] == 0


def test_a_session_belongs_to_its_replica(cluster: Wire, replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    cluster.table.brokers = {REPLICA: REPLICA_EPOCH, 3: 71}
    other = Replica(cluster, 3, 71)
    other.session_id, other.session_epoch = replica.session_id, 1

    assert other.ask()["error_code"] == 70
    assert replica.ask()["error_code"] == 0


def test_a_wrong_epoch_of_a_session_is_refused_and_the_session_stays(replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    session = replica.session_id
    replica.session_epoch = 5
    assert replica.ask()["error_code"] == 71

    replica.session_id, replica.session_epoch = session, 1

    assert replica.ask()["error_code"] == 0


def test_a_replica_can_fetch_without_a_session(cluster: Wire, replica: Replica) -> None:
    write(cluster, 0)
    replica.session_epoch = -1

    found = answered(replica.ask(wanted(0, 0)))

    assert replica.session_id == 0
    assert found[0]["records"] == placed(BATCH, 0)
    replica.session_epoch = -1
    replica.send(wanted(1, 0), max_wait_ms=WAIT_MS)
    assert replica.is_waiting
    write(cluster, 1)
    assert answered(replica.answer())[1]["records"] == placed(BATCH, 0)


def test_a_log_that_replaces_another_is_read_when_the_partition_is_named(
    cluster: Wire, logs: Logs, replica: Replica
) -> None:
    replica.ask(wanted(0, 0))
    old = cluster.log()
    new = logs.create(5, is_group_commit=False)
    lead(new)
    cluster.serve(new, cluster.log(1), cluster.log(2))

    old.release()
    cluster.run()
    assert errors(replica.ask()) == {0: 6}

    assert errors(replica.ask()) == {0: 0}


def test_a_connection_that_closes_while_its_fetch_waits_ends_the_wait(
    cluster: Wire, replica: Replica
) -> None:
    replica.ask(wanted(0, 0))
    replica.send(max_wait_ms=WAIT_MS)

    replica.client.close()
    write(cluster, 0)

    assert Replica(cluster).ask(wanted(0, 0))["error_code"] == 0


def test_a_fetch_is_answered_after_its_time_even_if_nothing_has_changed(replica: Replica) -> None:
    replica.ask(wanted(0, 0))
    replica.send(max_wait_ms=20)

    assert replica.answer()["responses"] == []


# ---- throttles ---------------------------------------------------------------------------------


def throttle(cluster: Wire, rate: int) -> PartitionLog:
    """Throttle the followers of partition 0; return its log."""
    log = cluster.log()
    log.throttle(as_leader=True, as_follower=False)
    cluster.logs.turn.leader_throttle.rate = rate
    return log


def test_a_throttled_replica_gets_no_records_before_more_may_be_copied(
    cluster: Wire, replica: Replica
) -> None:
    throttle(cluster, 1).set_isr([LEADER], 1)
    for number in (0, 0, 1):
        write(cluster, number)
    found = answered(replica.ask(wanted(0, 0, partition_max_bytes=1), wanted(1, 0)))
    assert found[0]["records"] == placed(BATCH, 0)

    found = answered(replica.ask(wanted(0, 2, last=0), wanted(1, 0)))
    assert found[1]["records"] == placed(BATCH, 0)
    assert 0 not in found, "nothing has changed that it may be told"
    replica.send(max_wait_ms=200)
    assert replica.is_waiting

    cluster.logs.turn.leader_throttle.rate = (1 << 63) - 1
    assert answered(replica.answer())[0]["records"] == placed(BATCH, 2)


def test_a_replica_in_sync_is_not_throttled(cluster: Wire, replica: Replica) -> None:
    throttle(cluster, 1)
    for expected in (0, 2, 4):
        write(cluster, 0)

        found = answered(replica.ask(wanted(0, expected, last=0 if expected else -1)))

        assert found[0]["records"] == placed(BATCH, expected)
