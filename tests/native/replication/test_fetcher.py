"""Copying partitions from a leader: what is asked for when, and what becomes of the answers."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker._native.log import truncation
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.replication.fetcher import ReplicaEvent
from tests.support.native_log import TOPIC_ID, Logs, appended, placed, records
from tests.support.native_wire import Wire
from tests.support.scripted_leader import (
    BROKER_EPOCH,
    BROKER_ID,
    SESSION_ID,
    Asked,
    Leader,
    batch,
    part,
    reply,
)

EPOCH = 5
OTHER_TOPIC = bytes(range(16))


def follower(logs: Logs, partition: int = 0, **settings: Any) -> PartitionLog:
    """Return a new log that follows."""
    log = logs.create(partition, **settings)
    log.follow(EPOCH)
    return log


class Copying:
    """A leader, and the logs that are copied from it."""

    def __init__(self, logs: Logs, wire: Wire) -> None:
        self.logs = logs
        self.wire = wire
        self.leader = Leader(wire)
        self.fetcher = self.leader.fetcher

    def add(self, partition: int = 0, **settings: Any) -> PartitionLog:
        """Copy a new log."""
        log = follower(self.logs, partition, **settings)
        self.fetcher.add(log, TOPIC_ID, partition, EPOCH)
        return log

    def sync(self) -> None:
        """Sync what waits for it."""
        self.wire.run()
        self.logs.commit.run()

    def begin(self) -> Asked:
        """Connect; return the first request after an empty answer that began the session."""
        self.leader.connect()
        self.leader.answer(self.leader.request())
        return self.leader.request()

    def close(self) -> None:
        """Close everything."""
        self.leader.close()
        self.wire.close()


@pytest.fixture
def copying(logs: Logs) -> Iterator[Copying]:
    """Nothing is copied yet; a thread syncs the logs."""
    made = Copying(logs, Wire(logs))
    yield made
    made.close()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Copying]:
    """The same, where logs are synced only when the test runs `sync`."""
    logs = Logs(tmp_path, CommitThread(0))
    made = Copying(logs, Wire(logs))
    yield made
    made.close()
    logs.commit.stop()
    logs.turn.poll_synced()


# ---- requests --------------------------------------------------------------------------


def test_the_first_request_names_every_partition_in_a_new_session(copying: Copying) -> None:
    copying.add(0)
    copying.add(1)
    copying.leader.connect()

    asked = copying.leader.request()

    assert (asked.header.api_key, asked.header.api_version) == (1, 17)
    assert asked.session == (0, 0)
    assert {key: asked.body[key] for key in ("max_wait_ms", "min_bytes", "max_bytes")} == {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 10 << 20,
    }
    assert asked.body["isolation_level"] == 0
    assert asked.body["replica_state"] == {
        "replica_id": BROKER_ID,
        "replica_epoch": BROKER_EPOCH,
    }
    (topic,) = asked.body["topics"]
    assert topic["topic_id"] == TOPIC_ID
    assert [each["partition"] for each in topic["partitions"]] == [0, 1]
    first = topic["partitions"][0]
    assert first["current_leader_epoch"] == EPOCH
    assert first["fetch_offset"] == 0
    assert first["log_start_offset"] == 0
    assert first["partition_max_bytes"] == 1 << 20
    assert asked.forgotten == []
    assert copying.wire.poller.parked == 0, "no client waits"


def test_a_log_that_was_begun_anew_has_no_last_epoch(copying: Copying) -> None:
    log = copying.add()
    truncation.recreate(log, 90)
    copying.leader.connect()

    (topic,) = copying.leader.request().body["topics"]
    partition = topic["partitions"][0]
    assert (partition["fetch_offset"], partition["last_fetched_epoch"]) == (90, -1)


def test_a_log_without_records_whose_epochs_were_cut_has_no_last_epoch(copying: Copying) -> None:
    log = copying.logs.create(0)
    log.start_epoch(2)
    appended(log, records(3))
    copying.logs.settle(log)
    log.move_log_start(3)
    assert log.epoch_entries == [(2, 3)]
    truncation.set_epochs(log, [(0, 3)])
    log.follow(EPOCH)
    copying.fetcher.add(log, TOPIC_ID, 0, EPOCH)
    copying.leader.connect()

    (topic,) = copying.leader.request().body["topics"]
    partition = topic["partitions"][0]
    assert (partition["fetch_offset"], partition["last_fetched_epoch"]) == (3, -1)


def test_a_new_log_has_no_last_epoch_but_that_of_its_begin(copying: Copying) -> None:
    log = copying.add()
    copying.leader.connect()

    (topic,) = copying.leader.request().body["topics"]

    assert topic["partitions"][0]["last_fetched_epoch"] == log.leader_epoch


def test_partitions_of_several_topics_are_grouped(copying: Copying) -> None:
    for partition, topic_id in [(0, TOPIC_ID), (1, TOPIC_ID), (2, OTHER_TOPIC), (3, TOPIC_ID)]:
        copying.fetcher.add(follower(copying.logs, partition), topic_id, partition, EPOCH)
    copying.leader.connect()

    topics = copying.leader.request().body["topics"]

    assert [topic["topic_id"] for topic in topics] == [TOPIC_ID, OTHER_TOPIC, TOPIC_ID]
    assert [[each["partition"] for each in topic["partitions"]] for topic in topics] == [
        [0, 1],
        [2],
        [3],
    ]


def test_nothing_is_asked_without_a_partition(copying: Copying) -> None:
    copying.leader.connect()
    assert copying.leader.requests() == []

    copying.add()

    assert copying.leader.request().named == [(0, 0)]


def test_an_empty_answer_is_followed_by_a_request_that_names_nothing(copying: Copying) -> None:
    copying.add()
    asked = copying.begin()

    assert asked.session == (SESSION_ID, 1)
    assert asked.named == []
    copying.leader.answer(asked)
    assert copying.leader.request().session == (SESSION_ID, 2)


def test_records_are_appended_and_the_next_request_names_the_new_position(
    copying: Copying,
) -> None:
    log = copying.add()
    copying.add(1)
    asked = copying.begin()

    sent = batch(0, 3, epoch=2) + batch(3, epoch=EPOCH)
    copying.leader.answer(asked, part(0, sent, high_watermark=3))
    following = copying.leader.request()

    assert log.durable_end == log.log_end_offset == 4
    assert log.high_watermark == 3
    assert log.read(0, 1 << 20) == batch(0, 3, epoch=2)
    assert following.session == (SESSION_ID, 2)
    assert following.named == [(0, 4)]
    (topic,) = following.body["topics"]
    assert topic["partitions"][0]["last_fetched_epoch"] == EPOCH


def test_no_request_leaves_before_everything_is_durable(held: Copying) -> None:
    log = held.add()
    asked = held.begin()

    held.leader.answer(asked, part(0, batch(0)))

    assert held.leader.requests() == []
    assert log.durable_end == 0
    held.sync()
    assert held.leader.request().named == [(0, 1)]


def test_a_slow_sync_does_not_hold_back_what_is_durable_for_long(held: Copying) -> None:
    log = held.add()
    held.add(1, is_group_commit=False)
    asked = held.begin()

    held.leader.answer(asked, part(0, batch(0)), part(1, batch(0)))
    assert held.leader.requests() == []
    following = held.leader.request()

    assert following.named == [(1, 1)]
    held.leader.answer(following, part(0, batch(0)))  # a position that was not told since
    held.leader.answer(held.leader.request())
    assert held.leader.request().named == []
    held.sync()
    assert held.leader.request().named == [(0, 1)]
    assert log.log_end_offset == 1


def test_a_disk_that_hangs_does_not_keep_other_partitions_from_being_asked_for(
    held: Copying,
) -> None:
    log = held.add()
    held.add(1, is_group_commit=False)
    asked = held.begin()
    held.leader.answer(asked, part(0, batch(0)))
    assert held.leader.requests() == []

    following = held.leader.request()  # of partition 1, whose position has not changed
    assert following.named == []
    held.leader.answer(following, part(0, batch(0)))  # again, and it may take as long again
    assert held.leader.requests() == []
    held.leader.answer(held.leader.request(), part(0, batch(0)), part(1, batch(0)))

    assert held.leader.request().named == [(1, 1)]
    held.sync()
    assert log.log_end_offset == 1


def test_without_syncs_the_next_request_leaves_in_the_same_turn(copying: Copying) -> None:
    copying.add(is_group_commit=False)
    asked = copying.begin()

    copying.leader.answer(asked, part(0, batch(0)))

    (following,) = copying.leader.requests()
    assert following.named == [(0, 1)]


def test_the_high_watermark_of_an_answer_without_records_is_taken(copying: Copying) -> None:
    log = copying.add()
    copying.leader.answer(copying.begin(), part(0, batch(0)))
    asked = copying.leader.request()

    copying.leader.answer(asked, part(0, None, high_watermark=1))

    following = copying.leader.request()
    assert log.high_watermark == 1
    assert following.named == []


def test_the_start_of_the_leaders_log_is_taken(copying: Copying) -> None:
    log = copying.add()
    copying.leader.answer(copying.begin(), part(0, batch(0, 5) + batch(5)))
    asked = copying.leader.request()
    copying.leader.answer(asked, part(0, None, high_watermark=6, log_start_offset=5))

    copying.leader.request()

    assert log.log_start_offset == 5


def test_a_request_names_a_bounded_number_of_partitions(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1_001
    log = follower(copying.logs)
    for partition in range(count):
        copying.fetcher.add(log, TOPIC_ID, partition, EPOCH)
    copying.leader.connect()

    first = copying.leader.request()
    copying.leader.answer(first)
    second = copying.leader.request()

    assert [len(first.named), len(second.named)] == [1_000, 1]
    assert [first.body["max_wait_ms"], second.body["max_wait_ms"]] == [0, 500]
    assert copying.fetcher.partitions == count
    for partition in range(count):
        copying.fetcher.remove(TOPIC_ID, partition)


# ---- the second request in flight -----------------------------------------------------


def test_a_new_partition_is_told_while_a_request_is_parked(copying: Copying) -> None:
    copying.add()
    parked = copying.begin()

    copying.add(1)
    nudge = copying.leader.request()

    assert nudge.session == (SESSION_ID, 2)
    assert nudge.named == [(1, 0)]
    copying.add(2)
    assert copying.leader.requests() == []  # two are in flight
    copying.leader.answer(parked)
    assert copying.leader.request().named == [(2, 0)]


def test_no_second_request_is_sent_before_there_is_a_session(copying: Copying) -> None:
    copying.add()
    copying.leader.connect()
    asked = copying.leader.request()

    copying.add(1)

    assert copying.leader.requests() == []
    copying.leader.answer(asked)
    assert copying.leader.request().named == [(1, 0)]


def test_records_that_come_again_before_they_are_named_are_ignored(copying: Copying) -> None:
    log = copying.add()
    parked = copying.begin()
    copying.add(1)
    nudge = copying.leader.request()

    data = reply(parked.header.correlation_id, part(0, batch(0)))
    copying.leader.send(data + reply(nudge.header.correlation_id, part(0, batch(0))))
    following = copying.leader.request()

    assert log.log_end_offset == 1
    assert following.named == [(0, 1)]
    assert copying.leader.events() == []


def test_a_position_is_told_while_the_second_request_is_parked(copying: Copying) -> None:
    copying.add()
    parked = copying.begin()
    copying.add(1)
    copying.leader.request()

    copying.leader.answer(parked, part(0, batch(0)))

    assert copying.leader.request().named == [(0, 1)]
    assert copying.fetcher.in_flight == 2


# ---- partitions that go -----------------------------------------------------------------


def test_a_removed_partition_is_forgotten_in_the_session(copying: Copying) -> None:
    copying.add()
    log = copying.add(1)
    copying.begin()

    copying.fetcher.remove(TOPIC_ID, 1)
    nudge = copying.leader.request()

    assert nudge.forgotten == [1]
    assert nudge.named == []
    assert copying.fetcher.partitions == 1
    copying.fetcher.remove(TOPIC_ID, 1)
    copying.fetcher.remove(OTHER_TOPIC, 1)
    copying.fetcher.remove(b"short", 1)
    assert copying.leader.requests() == []
    assert log.log_end_offset == 0


def test_records_of_a_removed_partition_are_ignored(copying: Copying) -> None:
    copying.add()
    log = copying.add(1)
    asked = copying.begin()
    copying.fetcher.remove(TOPIC_ID, 1)
    nudge = copying.leader.request()

    copying.leader.answer(asked, part(1, batch(0)))
    copying.leader.answer(nudge, part(1, batch(0)))

    copying.leader.request()
    assert log.log_end_offset == 0


def test_a_partition_that_is_added_again_ignores_what_was_asked_before(copying: Copying) -> None:
    log = copying.add()
    asked = copying.begin()
    copying.fetcher.add(log, TOPIC_ID, 0, EPOCH)
    named = copying.leader.request()
    assert named.named == [(0, 0)]
    assert named.forgotten == []

    copying.leader.answer(asked, part(0, batch(0, 2)))
    assert log.log_end_offset == 0
    assert copying.leader.requests() == []
    copying.leader.answer(named, part(0, batch(0, 3)))

    assert log.log_end_offset == 3


def test_a_partition_that_is_removed_while_its_records_are_synced_blocks_nothing(
    held: Copying,
) -> None:
    held.add()
    held.add(1)
    asked = held.begin()
    held.leader.answer(asked, part(0, batch(0)))

    held.fetcher.remove(TOPIC_ID, 0)

    (following,) = held.leader.requests()
    assert following.forgotten == [0]
    held.sync()


def test_partitions_may_be_added_and_removed_without_a_connection(copying: Copying) -> None:
    copying.add()
    copying.add(1)
    copying.fetcher.remove(TOPIC_ID, 0)
    copying.leader.connect()

    assert copying.leader.request().named == [(1, 0)]


def test_a_log_with_unsynced_records_is_asked_for_once_they_are_durable(held: Copying) -> None:
    log = held.logs.create()
    log.append(records())
    log.follow(EPOCH)
    held.leader.connect()
    held.fetcher.add(log, TOPIC_ID, 0, EPOCH)
    assert held.leader.requests() == []

    held.sync()

    assert held.leader.request().named == [(0, 1)]


# ---- what Python has to solve -----------------------------------------------------------


@pytest.mark.parametrize("code", [3, 6, 56, 74, 75, 100])
def test_an_error_of_a_partition_is_an_event_and_ends_its_copying(
    copying: Copying, code: int
) -> None:
    copying.add()
    log = copying.add(1)
    asked = copying.begin()

    copying.leader.answer(asked, part(0, None, error_code=code), part(1, batch(0)))
    following = copying.leader.request()

    assert copying.leader.events() == [(ReplicaEvent.ERROR, 0, EPOCH, code, 0)]
    assert copying.leader.reported == 1
    assert following.forgotten == [0]
    assert following.named == [(1, 1)]
    assert log.log_end_offset == 1
    assert copying.fetcher.partitions == 1


def test_a_diverging_epoch_is_an_event(copying: Copying) -> None:
    copying.add()
    asked = copying.begin()
    diverging = {"epoch": 2, "end_offset": 40}

    copying.leader.answer(asked, part(0, None, diverging_epoch=diverging))

    assert copying.leader.events() == [(ReplicaEvent.DIVERGING, 0, EPOCH, 2, 40)]
    assert copying.leader.request().forgotten == [0]
    assert copying.leader.requests() == []


def test_an_offset_out_of_range_is_an_event_with_the_leaders_log_start(copying: Copying) -> None:
    copying.add()
    asked = copying.begin()

    copying.leader.answer(asked, part(0, None, error_code=1, log_start_offset=90))

    assert copying.leader.events() == [(ReplicaEvent.OUT_OF_RANGE, 0, EPOCH, 90, 0)]


def corrupt() -> bytes:
    data = bytearray(batch(0))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [corrupt(), batch(0, epoch=EPOCH + 1), batch(0)[:-1], b"\0"],
    ids=["CRC", "epoch", "no whole batch", "no header"],
)
def test_records_that_are_not_valid_are_never_appended(copying: Copying, data: bytes) -> None:
    log = copying.add()
    asked = copying.begin()

    copying.leader.answer(asked, part(0, data))

    assert copying.leader.events() == [(ReplicaEvent.CORRUPT, 0, EPOCH, 0, 0)]
    assert log.log_end_offset == 0
    assert copying.leader.request().forgotten == [0]
    copying.fetcher.add(log, TOPIC_ID, 0, EPOCH)
    asked = copying.leader.request()
    assert asked.named == [(0, 0)]


def test_the_good_batches_before_a_bad_one_are_appended(copying: Copying) -> None:
    log = copying.add()
    asked = copying.begin()

    copying.leader.answer(asked, part(0, batch(0) + placed(corrupt(), 1)))

    assert copying.leader.events() == [(ReplicaEvent.CORRUPT, 0, EPOCH, 0, 0)]
    assert log.log_end_offset == 1
    copying.leader.request()
    copying.fetcher.add(log, TOPIC_ID, 0, EPOCH)
    assert copying.leader.request().named == [(0, 1)]


def test_a_log_that_leads_meanwhile_is_an_event(copying: Copying) -> None:
    log = copying.add()
    asked = copying.begin()
    log.lead(EPOCH + 1, BROKER_ID, [BROKER_ID], [BROKER_ID])

    copying.leader.answer(asked, part(0, batch(0)))

    assert copying.leader.events() == [(ReplicaEvent.FAILED, 0, EPOCH, 0, 0)]
    assert log.log_end_offset == 0


@pytest.mark.parametrize("change", ["take_offline", "retire", "begin_loading", "lead"])
def test_a_log_that_fails_while_it_is_synced_blocks_nothing(held: Copying, change: str) -> None:
    log = held.add()
    held.add(1)
    asked = held.begin()
    held.leader.answer(asked, part(0, batch(0)), part(1, None))
    assert held.leader.requests() == []

    if change == "take_offline":
        log.take_offline("the test")
    elif change == "lead":
        log.lead(EPOCH + 1, BROKER_ID, [BROKER_ID], [BROKER_ID])
    else:
        getattr(log, change)()

    assert held.leader.request().forgotten == [0]
    assert held.leader.events() == [(ReplicaEvent.FAILED, 0, EPOCH, 0, 0)]
    held.sync()


def test_a_log_that_takes_no_records_is_an_event_at_once(copying: Copying) -> None:
    log = follower(copying.logs)
    log.take_offline("the test")
    copying.leader.connect()

    copying.fetcher.add(log, TOPIC_ID, 0, EPOCH)

    assert copying.leader.events() == [(ReplicaEvent.FAILED, 0, EPOCH, 0, 0)]
    assert copying.leader.requests() == []
    assert copying.fetcher.partitions == 0


# ---- sessions ----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [70, 71, 106])
def test_a_session_that_the_leader_does_not_know_begins_anew(copying: Copying, code: int) -> None:
    copying.add()
    copying.add(1)
    asked = copying.begin()
    copying.leader.answer(asked, part(0, batch(0)))
    asked = copying.leader.request()

    copying.leader.answer(asked, error_code=code, session_id=0)
    following = copying.leader.request()

    assert following.session == (0, 0)
    assert sorted(following.named) == [(0, 1), (1, 0)]
    copying.leader.answer(following, session_id=SESSION_ID + 1)
    assert copying.leader.request().session == (SESSION_ID + 1, 1)


def test_a_new_session_begins_after_all_answers_of_the_old_one(copying: Copying) -> None:
    copying.add()
    parked = copying.begin()
    copying.add(1)
    nudge = copying.leader.request()

    copying.leader.answer(parked, error_code=70, session_id=0)
    assert copying.leader.requests() == []
    copying.leader.answer(nudge, error_code=71, session_id=0)

    following = copying.leader.request()
    assert following.session == (0, 0)
    assert sorted(following.named) == [(0, 0), (1, 0)]


def test_a_leader_without_sessions_is_asked_for_all_partitions_each_time(copying: Copying) -> None:
    copying.add()
    copying.add(1)
    copying.leader.connect()
    asked = copying.leader.request()

    copying.leader.answer(asked, session_id=0)
    following = copying.leader.request()

    assert following.session == (0, 0)
    assert sorted(following.named) == [(0, 0), (1, 0)]


def test_a_forgotten_partition_is_not_part_of_a_new_session(copying: Copying) -> None:
    copying.add()
    copying.add(1)
    asked = copying.begin()
    copying.fetcher.remove(TOPIC_ID, 1)
    nudge = copying.leader.request()
    copying.leader.answer(asked, error_code=70, session_id=0)
    copying.leader.answer(nudge, error_code=70, session_id=0)

    following = copying.leader.request()

    assert following.named == [(0, 0)]
    assert following.forgotten == []


# ---- the connection -----------------------------------------------------------------------


def test_a_lost_connection_is_reported_and_a_new_one_begins_a_new_session(
    copying: Copying,
) -> None:
    log = copying.add()
    copying.leader.answer(copying.begin(), part(0, batch(0)))
    copying.leader.request()

    copying.leader.close()

    assert copying.leader.lost == ["reset by the peer"]
    assert not copying.fetcher.is_connected
    copying.leader.connect()
    asked = copying.leader.request()
    assert asked.session == (0, 0)
    assert asked.named == [(0, 1)]
    copying.leader.answer(asked, part(0, batch(1)))
    copying.leader.request()
    assert log.log_end_offset == 2


def test_a_connection_may_be_lost_during_a_sync(held: Copying) -> None:
    held.add()
    asked = held.begin()
    held.leader.answer(asked, part(0, batch(0)))

    held.leader.close()
    assert held.leader.lost == ["reset by the peer"]
    held.leader.connect()
    assert held.leader.requests() == []
    held.sync()

    assert held.leader.request().named == [(0, 1)]


def test_a_connection_may_be_lost_within_an_answer(copying: Copying) -> None:
    log = copying.add()
    asked = copying.begin()
    data = reply(asked.header.correlation_id, part(0, batch(0)))

    copying.leader.send(data[:-1])
    copying.leader.close()
    copying.leader.connect()

    assert copying.leader.request().named == [(0, 0)]
    assert log.log_end_offset == 0


def test_an_answer_may_come_byte_by_byte(copying: Copying) -> None:
    log = copying.add()
    asked = copying.begin()

    for each in reply(asked.header.correlation_id, part(0, batch(0))):
        copying.leader.send(bytes([each]))

    assert copying.leader.request().named == [(0, 1)]
    assert log.log_end_offset == 1


@pytest.mark.parametrize("budget_us", [0, 60_000_000])
@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_a_long_answer_is_served_in_parts(copying: Copying, size: int, budget_us: int) -> None:
    copying.wire.poller.budget_us = budget_us
    logs = [copying.add(partition) for partition in range(12)]
    asked = copying.begin()
    parts = [part(partition, batch(0, size=size // 12)) for partition in range(12)]

    copying.leader.answer(asked, *parts)

    named: list[tuple[int, int]] = []
    while len(named) < 12:  # the syncs of some may be slow
        for following in copying.leader.requests():
            named += following.named
            copying.leader.answer(following)
    assert sorted(named) == [(partition, 1) for partition in range(12)]
    assert [log.log_end_offset for log in logs] == [1] * 12


def test_the_rest_of_an_answer_is_taken_although_nothing_else_happens(copying: Copying) -> None:
    copying.wire.poller.budget_us = 0
    logs = [copying.add(partition) for partition in range(40)]
    asked = copying.begin()
    nothing = [part(partition, b"") for partition in range(39)]

    copying.leader.answer(asked, *nothing, part(39, batch(0)))

    assert logs[39].log_end_offset == 1


def test_an_answer_that_comes_twice_ends_the_connection(copying: Copying) -> None:
    log = copying.add(is_group_commit=False)
    asked = copying.begin()
    data = reply(asked.header.correlation_id, part(0, batch(0)))

    copying.leader.send(data)
    copying.leader.send(data)

    assert copying.leader.lost == ["a reply to nothing that was asked"]
    assert log.log_end_offset == 1


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_malformed_answer_ends_the_connection(copying: Copying, cut: int) -> None:
    copying.add()
    asked = copying.begin()
    body = reply(asked.header.correlation_id, part(0, batch(0)))[4:-cut]

    copying.leader.send(len(body).to_bytes(4) + body)

    assert copying.leader.lost == ["a reply that is malformed"]


@pytest.mark.parametrize("size", [0, 5, 1 << 30])
def test_an_answer_of_an_impossible_size_ends_the_connection(copying: Copying, size: int) -> None:
    copying.add()
    copying.begin()

    copying.leader.send(size.to_bytes(4) + bytes(8))

    assert copying.leader.lost == ["a reply of a size that cannot be"]


def test_an_unasked_answer_ends_the_connection(copying: Copying) -> None:
    copying.leader.connect()

    copying.leader.send(reply(0))

    assert copying.leader.lost == ["a reply to nothing that was asked"]


def test_another_error_of_the_whole_answer_ends_the_connection(copying: Copying) -> None:
    copying.add()
    asked = copying.begin()

    copying.leader.answer(asked, error_code=-1)

    assert copying.leader.lost == ["it has answered with error -1"]
    assert copying.leader.events() == []


def test_a_session_error_without_a_session_ends_the_connection(copying: Copying) -> None:
    copying.add()
    copying.leader.connect()

    copying.leader.answer(copying.leader.request(), error_code=70)

    assert copying.leader.lost == ["it has answered with error 70"]


def test_a_stale_broker_epoch_is_an_event_and_ends_the_connection(copying: Copying) -> None:
    copying.add()
    asked = copying.begin()

    copying.leader.answer(asked, error_code=77)

    assert copying.leader.events() == [(ReplicaEvent.STALE_BROKER, None, 0, 0, 0)]
    assert copying.leader.lost == ["it has answered with error 77"]
    copying.fetcher.broker_epoch = BROKER_EPOCH + 1
    copying.leader.connect()
    asked = copying.leader.request()
    assert asked.body["replica_state"]["replica_epoch"] == BROKER_EPOCH + 1


def test_the_sweep_leaves_the_connection_alone(copying: Copying) -> None:
    copying.add()
    asked = copying.begin()
    copying.leader.send(reply(asked.header.correlation_id)[:5])

    copying.wire.poller.sweep(-1, -1, -1)

    assert copying.fetcher.is_connected
    assert not copying.wire.poller.has_pending_replies


def test_a_leader_that_does_not_answer_is_lost(copying: Copying) -> None:
    leader = Leader(copying.wire, wait_ms=1, timeout_ms=1)
    leader.fetcher.add(follower(copying.logs), TOPIC_ID, 0, EPOCH)
    leader.connect()
    leader.request()

    copying.wire.run_until(lambda: bool(leader.lost))

    assert leader.lost == ["it has not answered in time"]
    leader.close()


def test_a_second_connection_is_refused(copying: Copying) -> None:
    copying.leader.connect()

    with pytest.raises(ValueError, match="it has a connection"):
        copying.fetcher.connect(copying.wire.poller, -1, "leader")


def test_a_topic_id_has_16_bytes(copying: Copying) -> None:
    with pytest.raises(ValueError, match="topic id of 3 bytes"):
        copying.fetcher.add(follower(copying.logs), b"abc", 0, EPOCH)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_an_answer_says_only_whole_valid_batches_are_appended(
    copying: Copying, seed: int
) -> None:
    chance = random.Random(seed)
    log = copying.add(is_group_commit=False)
    for _ in range(20):
        copying.leader.connect()
        asked = copying.leader.request()
        (_, end), *_ = asked.named
        sent = batch(end) + batch(end + 1)
        data = bytearray(reply(asked.header.correlation_id, part(0, sent)))
        # No checksum covers a batch's base offset and leader epoch.
        starts = [data.index(sent), data.index(sent) + len(batch(end))]
        unchecked = {start + each for start in starts for each in (*range(8), *range(12, 16))}
        places = [each for each in range(len(data)) if each not in unchecked]
        for place in chance.choices(places, k=chance.randrange(1, 4)):
            data[place] = chance.randrange(256)
        copying.leader.send(bytes(data))
        copying.fetcher.close("the next one")
        copying.fetcher.take_events()
        copying.fetcher.add(log, TOPIC_ID, 0, EPOCH)

    appended = b"".join(batch(each) for each in range(log.log_end_offset))
    (file,) = Path(log.folder).glob("*.log")
    assert file.read_bytes()[: len(appended)] == appended
