"""The rules of replicas: what a leader and its followers may show, keep and accept."""

from collections.abc import Callable

import pytest

from broker.model import limits
from broker.model.errors import TooFewReplicas
from broker.model.log_results import AppendStatus, LogState
from tests.support.native_log import appended, batches, placed, records
from tests.support.native_replicas import BATCH, LAG_MS, Replicas, fill

# ---- the only replica ---------------------------------------------------------------------------


def test_the_high_watermark_of_an_only_replica_is_its_durable_end(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(1)
    appended(replicas.leader, BATCH)
    assert replicas.leader.high_watermark == 0

    replicas.settle()

    assert not replicas.leader.is_replicated
    assert replicas.leader.high_watermark == replicas.leader.kept_offset == 1
    assert replicas.leader.is_caught_up_leader


def test_no_broker_is_a_replica_of_a_log_without_others(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(1)
    assert replicas.leader.report(2, 0) is LogState.NOT_REPLICA


# ---- the leader's high watermark ----------------------------------------------------------------


def test_the_high_watermark_is_the_smallest_durable_end_of_those_in_sync(
    replicas: Replicas,
) -> None:
    fill(replicas, 3)
    assert replicas.leader.high_watermark == 0

    replicas.leader.report(2, 3)
    assert replicas.leader.high_watermark == 0  # the third's end is not known
    replicas.leader.report(3, 1)
    assert replicas.leader.high_watermark == 1
    replicas.leader.report(3, 3)
    assert replicas.leader.high_watermark == 3


def test_the_leader_counts_only_what_is_on_its_own_disk(replicas: Replicas) -> None:
    appended(replicas.leader, BATCH)
    replicas.all[1].logs.turn.end()
    assert replicas.leader.local_end == 1  # copied already while the leader syncs it
    replicas.leader.report(2, 1)
    replicas.leader.report(3, 1)
    assert replicas.leader.high_watermark == 0

    replicas.settle(1)

    assert replicas.leader.high_watermark == 1


def test_under_os_a_write_is_enough(make_replicas: Callable[..., Replicas]) -> None:
    replicas = make_replicas(is_group_commit=False)
    appended(replicas.leader, BATCH)
    replicas.all[1].logs.turn.end()
    for each in (2, 3):
        replicas.copy(each)
        replicas.all[each].logs.turn.end()
        assert replicas.log(each).kept_offset == 1
        replicas.report(each)

    assert replicas.leader.high_watermark == 1
    assert replicas.leader.durable_end == 0


@pytest.mark.parametrize("is_group_commit", [False, True])
def test_this_replica_keeps_what_it_has_written_or_synced(
    make_replicas: Callable[..., Replicas], is_group_commit: bool
) -> None:
    replicas = make_replicas(is_group_commit=is_group_commit)
    called: list[bool] = []
    appended(replicas.leader, BATCH)
    replicas.leader.when_kept(1, called.append)

    replicas.all[1].logs.turn.end()
    assert called == [True] * (not is_group_commit)
    if is_group_commit:
        replicas.settle(1)

    assert called == [True]
    assert replicas.leader.high_watermark == 0
    replicas.leader.when_kept(1, called.append)
    assert called == [True, True]


def test_what_waits_for_this_replica_alone_fails_or_goes_on_with_its_role(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas()
    called: list[bool] = []
    appended(replicas.leader, BATCH)
    replicas.leader.when_kept(1, called.append)
    replicas.leader.lead(2, 1, [1], [1])
    replicas.settle(1)
    assert called == [True]

    replicas = make_replicas()
    appended(replicas.leader, BATCH)
    replicas.leader.when_kept(1, called.append)
    replicas.leader.follow(2)
    assert called == [True, False]


def test_a_replica_outside_the_isr_does_not_hold_the_high_watermark(replicas: Replicas) -> None:
    fill(replicas, 2)
    replicas.leader.report(2, 2)

    replicas.leader.set_isr([1, 2], 2)

    assert replicas.leader.high_watermark == 2


def test_a_replica_whose_addition_is_being_written_holds_it(replicas: Replicas) -> None:
    replicas.leader.set_isr([1, 2], 2)
    fill(replicas, 2)
    replicas.leader.set_isr([1, 2, 3], 2)
    replicas.leader.report(2, 2)
    assert replicas.leader.high_watermark == 0

    replicas.leader.report(3, 1)
    assert replicas.leader.high_watermark == 1


def test_it_moves_only_while_the_stored_isr_has_enough_members(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(min_isr=2)
    fill(replicas, 1)
    replicas.leader.set_isr([1], 1)
    assert replicas.leader.lacks_replicas
    assert replicas.leader.high_watermark == 0

    replicas.leader.set_isr([1, 2], 1)  # an addition that is not stored yet does not count
    replicas.leader.report(2, 1)
    assert replicas.leader.high_watermark == 0
    replicas.leader.set_isr([1, 2], 2)
    assert replicas.leader.high_watermark == 1


def test_of_fewer_replicas_than_the_setting_all_are_needed(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(2, min_isr=3)
    assert not replicas.leader.lacks_replicas
    replicas.leader.set_isr([1], 1)
    assert replicas.leader.lacks_replicas


def test_the_setting_applies_at_once(replicas: Replicas) -> None:
    fill(replicas, 1)
    replicas.leader.configure(min_isr=2)
    replicas.leader.set_isr([1], 1)
    assert replicas.leader.high_watermark == 0

    replicas.leader.configure(min_isr=1)

    assert replicas.leader.high_watermark == 1


def test_it_never_goes_back(replicas: Replicas) -> None:
    fill(replicas, 2)
    replicas.leader.report(2, 2)
    replicas.leader.report(3, 2)

    replicas.leader.report(3, 1)

    assert replicas.leader.high_watermark == 2


def test_readers_see_only_what_is_below_it(replicas: Replicas) -> None:
    for _ in range(3):
        appended(replicas.leader, BATCH)
        replicas.settle(1)
    replicas.leader.report(2, 3)
    replicas.leader.report(3, 2)

    assert len(batches(replicas.leader.read(0, 1 << 20))) == 2
    assert len(batches(replicas.leader.read_for_replica(0, 1 << 20))) == 3


@pytest.mark.parametrize("interval", [1, 1 << 20])
@pytest.mark.parametrize("end", range(1, 9))
def test_the_newest_record_below_it_is_found(
    make_replicas: Callable[..., Replicas], end: int, interval: int
) -> None:
    replicas = make_replicas(2, index_interval_bytes=interval)
    times = [500, 900, 100, 700, 950, 200, 960, 970]
    for each in times:
        appended(replicas.leader, records(timestamp=each))
    replicas.settle(1)

    replicas.leader.report(2, end)

    newest = max(times[:end])
    assert replicas.leader.find_max_timestamp() == (times.index(newest), newest)


def test_a_high_watermark_at_the_end_of_a_full_segment_is_in_the_next(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(2, segment_bytes_max=len(BATCH))
    fill(replicas, 3)
    replicas.all[1].logs.settle(replicas.leader)
    for end in (1, 2, 3):
        replicas.leader.report(2, end)
        assert replicas.leader.high_watermark == end
        assert len(batches(replicas.leader.read(end - 1, 1 << 20))) == 1
        assert replicas.leader.read(end, 1 << 20) == b""


# ---- what is told of replicas -------------------------------------------------------------------


def test_an_unknown_broker_is_refused(replicas: Replicas) -> None:
    assert replicas.leader.report(4, 0) is LogState.NOT_REPLICA


def test_an_older_process_of_a_broker_is_refused(replicas: Replicas) -> None:
    fill(replicas, 2)
    assert replicas.leader.report(2, 1, 7) is LogState.OK
    assert replicas.leader.report(2, 2, 6) is LogState.NOT_REPLICA
    assert replicas.leader.replica_states()[0][:3] == (2, 7, 1)


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_end_outside_of_the_log_is_not_noted(replicas: Replicas, offset: int) -> None:
    fill(replicas, 2)
    assert replicas.leader.report(2, offset) is LogState.OUT_OF_RANGE
    assert replicas.leader.replica_states()[0][2] == -1


def test_copies_begin_with_the_whole_batch_that_has_the_log_start(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(2)
    leader = replicas.leader
    for _ in range(2):
        appended(leader, records(10))
    replicas.replicate()
    leader.move_log_start(15)

    assert leader.report(2, 9) is LogState.OUT_OF_RANGE
    assert leader.report(2, 10) is LogState.OK
    assert batches(leader.read_for_replica(10, 1 << 20)) == [placed(records(10), 10, 1)]
    with pytest.raises(IndexError):
        leader.read_for_replica(9, 1 << 20)


def test_a_follower_takes_no_reports(replicas: Replicas) -> None:
    assert replicas.log(2).report(1, 0) is LogState.NOT_LED


def test_a_replica_at_the_high_watermark_is_proposed_once_with_its_process(
    replicas: Replicas,
) -> None:
    turn = replicas.all[1].logs.turn
    replicas.leader.set_isr([1, 2], 2)
    fill(replicas, 2)
    replicas.leader.report(2, 2)
    replicas.leader.report(3, 1, 9)
    assert turn.isr_events == []

    replicas.leader.report(3, 2, 9)
    replicas.leader.report(3, 2, 9)

    assert turn.isr_events == [(replicas.leader, 3, 9)]


def test_it_is_proposed_again_after_a_while_or_when_its_addition_was_refused(
    replicas: Replicas,
) -> None:
    turn = replicas.all[1].logs.turn
    replicas.leader.set_isr([1, 2], 2)
    replicas.leader.report(3, 0)
    turn.steady_ms += limits.ISR_PROPOSAL_REPEAT_MS
    replicas.leader.report(3, 0)
    assert len(turn.isr_events) == 2

    replicas.leader.set_isr([1, 2], 2)
    replicas.leader.report(3, 0)
    assert len(turn.isr_events) == 3


def test_whoever_takes_the_proposals_is_called_with_the_first_of_them(replicas: Replicas) -> None:
    turn, called = replicas.all[1].logs.turn, list[int]()
    turn.when_in_sync = lambda: called.append(len(turn.isr_events))
    replicas.leader.set_isr([1], 1)
    fill(replicas, 1)
    for replica in (2, 3):
        replicas.leader.report(replica, 1)
    assert called == [1]

    turn.isr_events = []
    replicas.leader.set_isr([1], 1)
    replicas.leader.report(2, 1)

    assert called == [1, 1]


def test_it_is_not_proposed_below_the_start_of_the_epoch(replicas: Replicas) -> None:
    fill(replicas, 2)
    replicas.replicate()
    appended(replicas.leader, BATCH)  # copied by 2, not acknowledged
    replicas.settle(1)
    replicas.copy(2)
    replicas.settle(2)
    replicas.elect(2, isr=[1, 2])
    turn = replicas.all[2].logs.turn

    assert (replicas.leader.high_watermark, replicas.leader.epoch_start) == (2, 3)
    replicas.leader.report(3, 2)
    assert turn.isr_events == []
    replicas.leader.report(3, 3)
    assert turn.isr_events == [(replicas.leader, 3, -1)]


def test_one_that_stays_behind_is_lagging(replicas: Replicas) -> None:
    turn = replicas.all[1].logs.turn
    fill(replicas, 1)
    replicas.leader.report(2, 1)
    turn.steady_ms += LAG_MS

    assert turn.lag_scan(turn.steady_ms, LAG_MS) == []
    assert turn.lag_scan(turn.steady_ms + 1, LAG_MS) == [(replicas.leader, 3)]
    replicas.leader.report(3, 1)
    assert turn.lag_scan(turn.steady_ms + 1, LAG_MS) == []


def test_one_that_lags_before_and_after_the_others_are_removed_is_found_once(
    replicas: Replicas,
) -> None:
    turn = replicas.all[1].logs.turn
    fill(replicas, 1)

    replicas.leader.lead(1, 1, [1], [1])
    replicas.leader.lead(1, 1, [1, 3], [1, 3])
    turn.steady_ms += LAG_MS + 1

    for _ in range(2):
        assert turn.lag_scan(turn.steady_ms, LAG_MS) == [(replicas.leader, 3)]


def test_the_first_log_with_a_lagging_replica_is_reported(replicas: Replicas) -> None:
    turn, called = replicas.all[1].logs.turn, list[int]()
    fill(replicas, 1)
    replicas.replicate()
    turn.lag_scan(turn.steady_ms, LAG_MS)
    assert turn.lagging_count == 0
    turn.when_awaiting = lambda: called.append(turn.lagging_count)

    fill(replicas, 1)
    fill(replicas, 1)

    assert called == [1]


def test_one_at_the_end_is_not_lagging_however_long_ago_it_reported(replicas: Replicas) -> None:
    turn = replicas.all[1].logs.turn
    fill(replicas, 1)
    replicas.replicate()
    assert turn.lag_scan(turn.steady_ms + 10 * LAG_MS, LAG_MS) == []


def test_one_that_was_at_the_end_is_not_lagging_when_the_log_grows_after_a_long_time(
    replicas: Replicas,
) -> None:
    turn = replicas.all[1].logs.turn
    fill(replicas, 1)
    replicas.replicate()
    turn.steady_ms += 10 * LAG_MS
    fill(replicas, 1)

    assert turn.lag_scan(turn.steady_ms + LAG_MS, LAG_MS) == []
    assert turn.lag_scan(turn.steady_ms + LAG_MS + 1, LAG_MS) == [
        (replicas.leader, 2),
        (replicas.leader, 3),
    ]


def test_one_that_always_copies_all_there_was_at_its_last_report_is_not_lagging(
    replicas: Replicas,
) -> None:
    # It is never at the end of a log that grows all the time.
    turn = replicas.all[1].logs.turn
    for round_ in range(10):
        fill(replicas, 1)
        replicas.leader.report(2, round_)
        replicas.leader.report(3, 0)
        turn.steady_ms += LAG_MS // 3
    assert turn.lag_scan(turn.steady_ms, LAG_MS) == [(replicas.leader, 3)]


def test_one_outside_the_isr_is_not_lagging(replicas: Replicas) -> None:
    turn = replicas.all[1].logs.turn
    fill(replicas, 1)
    replicas.leader.set_isr([1], 1)
    assert turn.lag_scan(turn.steady_ms + 2 * LAG_MS, LAG_MS) == []


# ---- roles --------------------------------------------------------------------------------------


def test_a_follower_refuses_appends_and_acknowledges_nothing(replicas: Replicas) -> None:
    log = replicas.log(2)
    assert log.append(BATCH).status is AppendStatus.LOG_NOT_LED
    assert not log.is_led
    called: list[bool] = []
    log.when_durable(0, called.append)
    assert called == [False]


def test_a_leader_that_becomes_a_follower_fails_what_waits(replicas: Replicas) -> None:
    called: list[bool] = []
    fill(replicas, 1)
    replicas.leader.when_durable(1, called.append)

    replicas.leader.follow(2)

    assert called == [False]
    assert replicas.log(1).is_follower


def test_a_follower_admits_no_transaction_of_its_time_as_leader(replicas: Replicas) -> None:
    replicas.leader.admit_transaction(5, 0)
    replicas.leader.follow(2)
    assert not replicas.log(1).admits_transaction(5, 0)


def test_roles_of_older_epochs_are_refused(replicas: Replicas) -> None:
    replicas.elect(2)
    with pytest.raises(ValueError, match="is below"):
        replicas.log(1).follow(1)
    with pytest.raises(ValueError, match="is below"):
        replicas.log(1).lead(1, 1, [1, 2, 3], [1])
    replicas.log(1).follow(2)
    assert replicas.log(1).known_epoch == 2


def test_a_new_leader_starts_its_epoch_at_its_end_and_keeps_its_high_watermark(
    replicas: Replicas,
) -> None:
    fill(replicas, 2)
    replicas.replicate()
    replicas.copy(2)
    replicas.elect(2)

    assert replicas.leader.epoch_entries[-1] == (2, 2)
    assert replicas.leader.high_watermark == 2
    assert replicas.leader.replica_states()[0][:3] == (1, -1, -1)
    assert appended(replicas.leader, BATCH) == 2
    assert replicas.leader.read_for_replica(2, 1 << 20) == b""  # it is not in the file yet
    replicas.settle(2)
    assert batches(replicas.leader.read_for_replica(2, 1 << 20)) == [placed(BATCH, 2, 2)]


def test_a_leader_whose_epoch_is_raised_keeps_what_waits_and_forgets_what_replicas_have(
    replicas: Replicas,
) -> None:
    kept: list[bool] = []
    replicated: list[bool] = []
    fill(replicas, 1)
    replicas.leader.report(2, 1)
    replicas.leader.when_durable(1, replicated.append)
    replicas.leader.when_kept(2, kept.append)

    replicas.elect(1)

    assert replicas.leader.is_led
    assert [each[:3] for each in replicas.leader.replica_states()] == [(2, -1, -1), (3, -1, -1)]
    replicas.leader.report(3, 1)
    assert (replicated, kept) == ([], [])  # what replica 2 has told does not count
    replicas.leader.report(2, 1)
    fill(replicas, 1)
    assert (replicated, kept) == ([True], [True])


def test_a_leader_is_caught_up_once_all_before_its_epoch_is_below_the_high_watermark(
    replicas: Replicas,
) -> None:
    fill(replicas, 1)
    for each in (2, 3):
        replicas.copy(each)
        replicas.settle(each)
    replicas.elect(2)
    assert not replicas.leader.is_caught_up_leader

    replicas.replicate()

    assert replicas.leader.is_caught_up_leader


def test_a_leader_that_stops_accepting_refuses_appends_and_completes_what_it_has(
    replicas: Replicas,
) -> None:
    called: list[bool] = []
    fill(replicas, 1)
    replicas.leader.when_durable(1, called.append)

    replicas.leader.stop_accepting()

    assert replicas.leader.append(BATCH).status is AppendStatus.LOG_NOT_LED
    assert replicas.leader.is_led  # what it acknowledges is valid
    replicas.replicate()
    assert called == [True]
    replicas.leader.follow(1)
    replicas.leader.lead(1, 1, replicas.ids, replicas.ids)  # it has no successor after all
    assert replicas.leader.append(BATCH).status is AppendStatus.APPENDED


def test_replicas_can_be_added_and_removed_in_one_epoch(
    make_replicas: Callable[..., Replicas],
) -> None:
    replicas = make_replicas(3)
    fill(replicas, 2)
    replicas.leader.report(2, 2)
    replicas.leader.lead(1, 1, [1, 2], [1, 2])
    assert replicas.leader.high_watermark == 2
    replicas.leader.lead(1, 1, [1, 2, 4], [1, 2])
    assert [each[:3] for each in replicas.leader.replica_states()] == [(2, -1, 2), (4, -1, -1)]

    replicas.leader.lead(1, 1, [1], [1])

    fill(replicas, 1)
    assert not replicas.leader.is_replicated
    assert replicas.leader.high_watermark == 3


def test_an_only_replica_can_get_others(make_replicas: Callable[..., Replicas]) -> None:
    replicas = make_replicas(1)
    fill(replicas, 2)
    appended(replicas.leader, BATCH)
    replicas.leader.lead(1, 1, [1, 2], [1])
    replicas.settle()
    assert replicas.leader.high_watermark == 3
    replicas.leader.lead(1, 1, [1, 2], [1, 2])
    appended(replicas.leader, BATCH)
    replicas.settle()
    assert replicas.leader.high_watermark == 3
    replicas.leader.report(2, 4)
    assert replicas.leader.high_watermark == 4


def test_below_min_isr_a_batch_for_all_replicas_is_refused(replicas: Replicas) -> None:
    replicas.leader.configure(min_isr=2)
    replicas.leader.set_isr([1], 1)

    assert replicas.leader.append(BATCH).status is AppendStatus.LOG_TOO_FEW_REPLICAS
    assert replicas.leader.append(BATCH, needs_replicas=False).status is AppendStatus.APPENDED
    with pytest.raises(TooFewReplicas):
        replicas.leader.append_internal(BATCH)


def test_what_must_be_synced_must_be_replicated_as_well(replicas: Replicas) -> None:
    called: list[bool] = []
    appended(replicas.leader, BATCH)
    replicas.leader.when_synced(1, called.append)
    replicas.settle(1)
    assert called == []

    replicas.replicate()

    assert called == [True]


def test_what_waits_for_replicas_fails_when_too_few_are_in_sync(replicas: Replicas) -> None:
    called: list[bool] = []
    fill(replicas, 1)
    replicas.leader.configure(min_isr=2)
    replicas.leader.when_durable(1, called.append)
    assert called == []

    replicas.leader.set_isr([1], 1)
    assert called == [False]

    replicas.leader.when_durable(1, called.append)
    replicas.leader.when_synced(1, called.append)
    assert called == [False, False], "what is synced is refused, a new wait for replicas is not"
    replicas.leader.set_isr([1, 2, 3], 3)
    replicas.replicate()
    assert called == [False, False, True]


def test_what_waits_for_this_replica_does_not_wait_for_others(replicas: Replicas) -> None:
    called: list[bool] = []
    appended(replicas.leader, BATCH)
    replicas.leader.when_kept(1, called.append)
    assert called == []
    replicas.settle(1)
    assert called == [True]
    replicas.leader.when_kept(1, called.append)
    assert called == [True, True]

    replicas.leader.when_kept(2, called.append)
    replicas.leader.follow(replicas.leader.known_epoch + 1)

    assert called == [True, True, False]
    replicas.leader.when_kept(1, called.append)
    assert called == [True, True, False, False]


def test_a_wait_for_this_replica_goes_on_when_it_becomes_the_only_one(replicas: Replicas) -> None:
    called: list[bool] = []
    appended(replicas.leader, BATCH)
    replicas.leader.when_kept(1, called.append)

    replicas.leader.lead(replicas.leader.known_epoch, 1, [1], [1])
    replicas.settle(1)

    assert called == [True]
