"""A leader and two followers with random pasts: what each of them shows is what all have agreed on.

A model follows along: for each replica the batches that it has, how many of them are on its disk,
and what it shows. It knows nothing of files, segments and positions.
"""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker._native.log import truncation
from broker.model.log_results import AppendStatus, LogState
from broker.storage.recovery.truncation import cut_point
from tests.support.native_log import batches, records
from tests.support.native_replicas import READ_BYTES, Replicas

IDS = (1, 2, 3)


class _Replicas(RuleBasedStateMachine):
    """The replicas, and what was agreed on: below any high watermark that was ever shown."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.replicas = Replicas(
            Path(self.folder.name), segment_bytes_max=400, index_interval_bytes=100
        )
        self.agreed: dict[int, bytes] = {}  # by base offset
        self.shown = dict.fromkeys(IDS, 0)  # each replica's last high watermark
        self.known = dict.fromkeys(IDS, -1)  # the ends that the leader was told in this epoch
        self.isr = set(IDS)
        self.committed = 3

    def teardown(self) -> None:
        self.replicas.stop()
        self.folder.cleanup()

    # ---- what may happen ------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), size=st.sampled_from([8, 8, 150]), time=st.integers(0, 9))
    def append(self, count: int, size: int, time: int) -> None:
        log = self.replicas.leader
        result = log.append(records(count, size=size, timestamp=time), needs_replicas=False)
        assert result.status is AppendStatus.APPENDED

    @rule(number=st.sampled_from(IDS))
    def write(self, number: int) -> None:
        self.replicas.all[number].logs.turn.end()

    @rule(number=st.sampled_from(IDS))
    def sync(self, number: int) -> None:
        self.replicas.settle(number)

    @rule(number=st.sampled_from(IDS), size_max=st.sampled_from([1, 150, 300, READ_BYTES]))
    def copy(self, number: int, size_max: int) -> None:
        if number == self.replicas.leader_id:
            return
        log, leader = self.replicas.log(number), self.replicas.leader
        found = leader.divergence(log.leader_epoch, log.log_end_offset, log.log_start_offset)
        if found is not None:
            self.cut(number, cut_point(log, *found))
            return
        self.known[number] = log.kept_offset
        assert self.replicas.report(number) is LogState.OK
        data = leader.read_for_replica(log.log_end_offset, size_max)
        assert self.replicas.take(number, data) is LogState.OK

    @rule(numbers=st.sets(st.sampled_from(IDS)))
    def catch_up(self, numbers: set[int]) -> None:
        self.replicas.settle(self.replicas.leader_id)
        leader = self.replicas.leader
        for number in numbers - {self.replicas.leader_id}:
            log = self.replicas.log(number)
            while log.log_end_offset < leader.log_end_offset or (
                leader.divergence(log.leader_epoch, log.log_end_offset, log.log_start_offset)
            ):
                self.copy(number, READ_BYTES)
            self.sync(number)
            self.copy(number, READ_BYTES)

    def cut(self, number: int, offset: int) -> None:
        """Cut a follower's log, with nothing else in its thread."""
        log = self.replicas.log(number)
        self.replicas.settle(number)
        self.replicas.all[number].logs.settle(log)
        kept = [each for each in log.epoch_entries if each[1] < offset] or [(0, 0)]
        assert log.high_watermark <= offset
        log.begin_loading()
        assert log.hold()
        plan = truncation.plan(log, offset)
        if plan is not None:
            for base in plan.removed:
                for suffix in ("log", "index", "timeindex"):
                    path = Path(log.folder) / f"{base:020}.{suffix}"
                    path.unlink(missing_ok=True)
            truncation.cut(log, plan.base_offset, plan.size)
            truncation.rebuild(
                log,
                plan.base_offset,
                plan.end_offset,
                epochs=kept,
                snapshot=b"",
                snapshot_offset=0,
            )
        else:
            truncation.set_epochs(log, kept)
        log.end_hold()
        log.end_loading()

    @rule(number=st.sampled_from(IDS), is_stored=st.booleans())
    def shrink(self, number: int, is_stored: bool) -> None:
        if number != self.replicas.leader_id:
            self.isr.discard(number)
            self.set_isr(is_stored=is_stored)

    @rule(is_stored=st.booleans())
    def grow(self, is_stored: bool) -> None:
        turn = self.replicas.all[self.replicas.leader_id].logs.turn
        events, turn.isr_events = turn.isr_events, []
        leader = self.replicas.leader
        ends = {number: end for number, _, end, _ in leader.replica_states()}
        for log, number, _ in events:
            assert log is leader
            if ends[number] >= max(leader.high_watermark, leader.epoch_start):  # still
                self.isr.add(number)
        self.set_isr(is_stored=is_stored)

    def set_isr(self, *, is_stored: bool) -> None:
        self.committed = len(self.isr) if is_stored else min(self.committed, len(self.isr))
        self.replicas.leader.set_isr(sorted(self.isr), self.committed)

    @rule(minimum=st.integers(1, 3))
    def configure(self, minimum: int) -> None:
        for number in IDS:
            self.replicas.log(number).configure(
                min_isr=minimum, segment_bytes_max=400, index_interval_bytes=100
            )
        self.minimum = minimum

    minimum = 1

    @precondition(lambda self: len(self.isr) > 1)
    @rule(number=st.sampled_from(IDS))
    def elect(self, number: int) -> None:
        if number not in self.isr:
            return
        for each in self.replicas.all.values():
            each.logs.turn.isr_events = []
        self.known = dict.fromkeys(IDS, -1)
        self.committed = len(self.isr)
        self.replicas.elect(number, sorted(self.isr))

    # ---- what always holds ----------------------------------------------------------------------

    @invariant()
    def the_leaders_is_the_smallest_durable_end_of_those_in_sync(self) -> None:
        leader = self.replicas.leader
        ends = [self.known[each] for each in self.isr if each != self.replicas.leader_id]
        end = min([leader.kept_offset, *ends])
        if self.committed >= self.minimum:
            assert leader.high_watermark == max(end, self.shown[self.replicas.leader_id])

    @invariant()
    def none_goes_back_or_shows_what_its_disk_has_not(self) -> None:
        for number in IDS:
            log = self.replicas.log(number)
            assert log.high_watermark >= self.shown[number]
            assert log.high_watermark <= log.kept_offset
            self.shown[number] = log.high_watermark

    @invariant()
    def all_show_the_same_bytes(self) -> None:
        for number in IDS:
            log = self.replicas.log(number)
            offset = 0
            while offset < log.high_watermark:
                data = log.read(offset, READ_BYTES)
                assert data
                for batch in batches(data):
                    base = int.from_bytes(batch[:8])
                    assert base == offset
                    assert self.agreed.setdefault(base, batch) == batch
                    offset = base + int.from_bytes(batch[23:27]) + 1
            assert offset == log.high_watermark

    @invariant()
    def the_newest_time_is_that_of_what_is_shown(self) -> None:
        for number in IDS:
            log = self.replicas.log(number)
            times = {
                offset: int.from_bytes(batch[35:43])
                for offset, batch in self.agreed.items()
                if offset < log.high_watermark
            }
            found = log.find_max_timestamp()
            assert (found and found[1]) == (max(times.values()) if times else None)

    @invariant()
    def every_replica_has_all_that_any_member_of_the_isr_may_have_shown(self) -> None:
        highest = max(self.shown.values())
        for number in self.isr:
            assert self.replicas.log(number).kept_offset >= highest


TestReplicas = _Replicas.TestCase
TestReplicas.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
