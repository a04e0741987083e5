"""What must hold for replicated partitions at every moment, and what once they have settled.

at every append
    one process writes an epoch; a follower has the leader's bytes: a batch of an offset and an
    epoch is the same one everywhere
at every move of a high watermark
    a leader's rises in its epoch; a follower's is not above what is committed, nor above what its
    disk has; a follower's falls never
    what a leader commits was on the disks of min.insync.replicas brokers, and is on those of all
    members of the ISR that have not lost their disk since
    nothing committed is committed again, at another offset or with other bytes
at every election, and every change of an ISR
    the new leader and the members have everything that is committed; but what an unclean leader
    does not have on its disk is not committed any more (the cluster's audit says who may be one)
at every cut of a log
    nothing that is committed is removed; what could be read before is told, with its number
at every answer to a client
    acknowledged for all: it is committed at that offset; one process acknowledges in an epoch
    read: it is committed, and no offset is skipped
    the latest offset: not below any that was answered before the question was asked
once it has settled
    all replicas have the same bytes, and everything that is committed and not deleted is visible
    in all of them
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from broker._native.log.partition_log import PartitionLog
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.core.cluster.writes import Item
from tests.simulation.replication.batches import Stored, same_but_for_the_place, split
from tests.simulation.replication.storage import written
from tests.simulation.violation import Violation

EVERYTHING = 1 << 30


class Seen:
    """What the audit knows of one process's replica."""

    __slots__ = ("durable", "end", "position", "process", "segment", "watermark")

    def __init__(self, process: str) -> None:
        self.process = process
        self.end = self.durable = self.watermark = 0
        self.segment = self.position = 0  # in the files, of the end


class ReplicationAudit:
    """The truth about all replicas, and what clients were told."""

    def __init__(self, image: ClusterImage, min_isr: int) -> None:
        self.image = image  # of the store itself
        self.min_isr = min_isr
        self.committed: dict[Item, dict[int, Stored]] = defaultdict(dict)  # by base offset
        self.committed_end: dict[Item, int] = defaultdict(int)
        self.latest: dict[Item, int] = defaultdict(int)  # the highest answer
        self.deleted: dict[Item, int] = defaultdict(int)  # below it clients have deleted records
        self._ever_deleted: dict[Item, int] = defaultdict(int)  # the same, before any loss
        self.acknowledged_count = 0
        # Brokers whose disk was lost, until they are members of the ISR again.
        self.wiped: dict[Item, set[int]] = defaultdict(set)
        self._states: dict[Item, PartitionState] = {}
        self._epochs: dict[tuple[Item, int], dict[int, int]] = defaultdict(dict)  # by base offset
        self._durable: dict[tuple[Item, int], int] = defaultdict(int)
        self._starts: dict[tuple[Item, int], int] = defaultdict(int)  # of the files
        self._held: dict[Item, dict[tuple[int, int], set[int]]] = defaultdict(
            lambda: defaultdict(set)
        )
        self._written: dict[tuple[Item, int, int], bytes] = {}
        self._writers: dict[tuple[Item, int], str] = {}
        self._sequences: dict[Item, dict[tuple[int, int, int], int]] = defaultdict(dict)
        self._elected: dict[Item, int] = {}
        self._leaders: dict[tuple[Item, int], str] = {}  # processes, by epoch
        self.losses: dict[Item, int] = defaultdict(int)  # by unclean elections
        self.lost_count = 0  # records that were committed
        self._unclean: dict[Item, int] = defaultdict(int)  # the epoch of the last such election
        # What was committed before one of them, by place.
        self._known: dict[Item, dict[tuple[int, int], Stored]] = defaultdict(dict)

    # ---- replicas
    # ---------------------------------------------------------------------------------------------

    def opened(self, item: Item, broker_id: int, process: str, log: PartitionLog) -> Seen:
        """Note what a process has found in its directory."""
        durable = self._durable[item, broker_id]
        if log.log_end_offset < durable and log.first_damage is None:
            raise Violation(
                f"{process} has lost synced records of {item}: {log.log_end_offset} of {durable}"
            )
        key = (item, broker_id)
        self._epochs[key] = {}
        self._durable[key] = 0
        seen = Seen(process)
        seen.end = self._starts[key] = log.segment_entries[0][0]
        self._grown(item, broker_id, seen, log)
        self._synced(item, broker_id, seen, log)
        seen.watermark = min(log.high_watermark, _end(log))
        return seen

    def lost_disk(self, broker_id: int, items: Iterable[Item]) -> None:
        """Note that a broker's directory is empty."""
        for item in items:
            self.wiped[item].add(broker_id)
            self.dropped(item, broker_id)

    def dropped(self, item: Item, broker_id: int) -> None:
        """Note that a broker has removed its replica."""
        self._durable[item, broker_id] = self._starts[item, broker_id] = 0
        self._epochs[item, broker_id] = {}

    def cut(
        self, process: str, item: Item, readable: tuple[int, int], log: PartitionLog, told: int
    ) -> None:
        """Check what a process tells of a cut; it could read a part of the log before."""
        start, watermark = readable
        lost = max(watermark - max(start, log.high_watermark), 0)
        if told != lost:
            raise Violation(f"{process} has cut {lost} readable records of {item}, tells {told}")

    def observe(self, item: Item, broker_id: int, seen: Seen, log: PartitionLog) -> None:
        """Look at a replica after anything that a process did."""
        end = _end(log)
        if log.local_end < seen.end or log.log_start_offset > seen.end:
            self._truncated(item, broker_id, seen, log)
        if end > seen.end:
            self._grown(item, broker_id, seen, log)
        if log.kept_offset != seen.durable:
            self._synced(item, broker_id, seen, log)
        watermark = min(log.high_watermark, end)
        if watermark == seen.watermark:
            return
        if log.known_epoch < self._unclean[item]:  # nobody is told any more what it commits
            seen.watermark = watermark
            return
        moved = f"epoch {log.known_epoch}: {seen.watermark}, {watermark}"
        shown = _Shown("{} {}, {}", item, seen.process, moved)
        if watermark < seen.watermark:
            raise Violation(f"a high watermark falls, {shown}")
        if watermark > log.kept_offset:
            raise Violation(f"a high watermark above the disk's {log.kept_offset}, {shown}")
        if log.is_follower:
            if watermark > self.committed_end[item]:
                raise Violation(f"a follower shows what is not committed, {shown}")
            self._check_prefix(item, broker_id, watermark, shown)
        else:
            self._commit(item, broker_id, log, shown)
        seen.watermark = watermark

    def _truncated(self, item: Item, broker_id: int, seen: Seen, log: PartitionLog) -> None:
        end = log.local_end
        key = (item, broker_id)
        kept = max(end, self.deleted[item])  # what is deleted need not be there
        # (One that an unclean election has made the leader may not have heard of it yet.)
        counts = log.known_epoch >= self._unclean[item]
        if counts and kept < seen.watermark and seen.end > self._starts[key]:  # it is not empty
            committed, epochs = self.committed[item], self._epochs[key]
            is_committed = any(
                at >= kept and at in committed and committed[at].epoch == epoch
                for at, epoch in epochs.items()
            )
            if is_committed or not self.losses[item]:
                raise Violation(f"{seen.process} cuts {item} to {end}, below {seen.watermark}")
        seen.watermark = min(log.high_watermark, _end(log))
        self._epochs[key] = {}
        self._durable[key] = min(self._durable[key], end)
        seen.end = self._starts[key] = log.segment_entries[0][0]
        seen.segment = seen.position = 0

    def _grown(self, item: Item, broker_id: int, seen: Seen, log: PartitionLog) -> None:
        epochs = self._epochs[item, broker_id]
        expected = seen.end
        for batch in _unseen(log, seen):
            if batch.base_offset != expected:
                raise Violation(f"a gap after {expected}: {_place(seen, item, batch)}")
            expected = batch.end_offset
            place = (item, batch.base_offset, batch.epoch)
            known = self._written.get(place)
            if known is None:
                # (A full disk gets what a leader has appended when that one is a follower.)
                if log.is_follower and self._leaders.get((item, batch.epoch)) != seen.process:
                    shown = _place(seen, item, batch)
                    raise Violation(f"a follower has what no leader wrote: {shown}")
                writer = self._writers.setdefault((item, batch.epoch), seen.process)
                if writer != seen.process:
                    shown = _place(seen, item, batch)
                    raise Violation(f"{writer} has written in that epoch, too: {shown}")
                self._written[place] = batch.data
            elif known != batch.data:
                raise Violation(f"another batch is there: {_place(seen, item, batch)}")
            epochs[batch.base_offset] = batch.epoch
        seen.end = expected

    def _synced(self, item: Item, broker_id: int, seen: Seen, log: PartitionLog) -> None:
        key = (item, broker_id)
        durable = min(log.kept_offset, seen.end)
        held, before = self._held[item], self._durable[key]
        for at, epoch in reversed(self._epochs[key].items()):
            if at < before:
                break
            if at < durable:
                held[at, epoch].add(broker_id)
        seen.durable = log.kept_offset
        self._durable[key] = durable

    def has(self, item: Item, broker_id: int, batch: Stored) -> bool:
        """Return whether a broker's disk has a batch now."""
        key = (item, broker_id)
        is_there = self._epochs[key].get(batch.base_offset) == batch.epoch
        return is_there and self._durable[key] >= batch.end_offset

    # ---- commits
    # ---------------------------------------------------------------------------------------------

    def _commit(self, item: Item, broker_id: int, log: PartitionLog, shown: "_Shown") -> None:
        end, watermark = self.committed_end[item], log.high_watermark
        self._check_prefix(item, broker_id, min(end, watermark), shown)
        if watermark <= end:
            return
        state = self.image.state(*item)
        assert state is not None
        # More may have been deleted here than an unclean leader had on its disk.
        if self.losses[item] and end < log.log_start_offset <= self._ever_deleted[item]:
            end = log.log_start_offset
        for batch in _visible(log, end):
            self._check_holders(item, state, batch, shown)
            sequence = batch.sequence
            if sequence is not None:
                # A replica that was begun anew after a delete knows nothing of what was before.
                if self._sequences[item].get(sequence, -1) >= self.deleted[item]:
                    raise Violation(f"{sequence} is there twice, {shown}")
                self._sequences[item][sequence] = batch.base_offset
            self.committed[item][batch.base_offset] = batch
            end = batch.end_offset
        if end != watermark:
            raise Violation(f"a high watermark within a batch that ends at {end}, {shown}")
        self.committed_end[item] = end

    def _check_holders(
        self, item: Item, state: PartitionState, batch: Stored, shown: "_Shown"
    ) -> None:
        held = self._held[item][batch.base_offset, batch.epoch]
        if len(held) < self.min_isr:
            raise Violation(f"committed on {held} only, {shown}")
        # Before an unclean election, more may have been deleted from a member than from the leader.
        lacking = [
            each
            for each in state.isr
            if each not in self.wiped[item]
            and not self.has(item, each, batch)
            and not (self.losses[item] and self._starts[item, each] >= batch.end_offset)
        ]
        if lacking:
            raise Violation(f"{lacking} of the ISR {state.isr} lack what is committed, {shown}")

    def _check_prefix(self, item: Item, broker_id: int, end: int, shown: "_Shown") -> None:
        """Check that a replica has what is committed below an offset."""
        epochs = self._epochs[item, broker_id]
        for batch in reversed(self.committed[item].values()):
            if batch.base_offset >= end:
                continue
            if batch.end_offset <= max(self._starts[item, broker_id], self.deleted[item]):
                # Deleted. A leader forgets the epochs before its log start, so a follower may keep
                # another history there, below its own log start.
                return
            if epochs.get(batch.base_offset) != batch.epoch:
                raise Violation(f"without what is committed at {batch.base_offset}, {shown}")
            return  # with the same batch, a log has the same ones before it: checked at appends

    def led(self, item: Item, broker_id: int, seen: Seen, epoch: int) -> None:
        """Check a leader at its election.

        It commits what it showed as a follower that did not know of an unclean election yet. Such a
        follower may also have been cutting its log, for the leader before: then less is committed.
        """
        process, state = seen.process, self._states.get(item)
        is_first = self._elected.get(item) != epoch
        if state is not None and epoch == self._unclean[item] == state.leader_epoch and is_first:
            self._lose_what_was_cut(item, state)
        seen.watermark = min(seen.watermark, self.committed_end[item])
        self._leaders.setdefault((item, epoch), process)
        if self._elected.get(item, -1) > epoch:
            return  # it is late: another one has been elected since
        self._elected[item] = epoch
        end = self.committed_end[item]
        shown = _Shown("{} leads {} in epoch {}", process, item, epoch)
        self._check_prefix(item, broker_id, end, shown)

    def _lose_what_was_cut(self, item: Item, state: PartitionState) -> None:
        """Note an election again whose leader lacks the last batch by now, or begins after it."""
        start = self._starts[item, state.leader]
        last = next(reversed(self.committed[item].values()), None)
        if last is None or last.end_offset <= start:
            is_cut = start > self.committed_end[item]
        else:
            is_cut = not self.has(item, state.leader, last)
        if is_cut:
            self._lose(item, state)

    def state_changed(self, item: Item, state: PartitionState) -> None:
        """Look at a change of a partition's state in the store."""
        placed = state._replace(isr=state.replicas, elr=(), leader_epoch=0)
        before = self._states.get(item, placed)
        self._states[item] = state
        leader = state.leader
        is_removal = not set(before.replicas) <= set(state.replicas)
        is_begun = state.leader_epoch != before.leader_epoch
        is_elected = leader != NO_LEADER and is_begun and not is_removal
        if is_elected and self._is_unclean(item, leader, before):
            self._lose(item, state)
        self.wiped[item].difference_update(each for each in state.isr if each not in before.isr)
        for each in {*state.isr, leader} - {NO_LEADER} - self.wiped[item]:
            shown = _Shown("{} in {}: {}", each, item, state)
            self._check_prefix(item, each, self.committed_end[item], shown)

    def _is_unclean(self, item: Item, leader: int, before: PartitionState) -> bool:
        return leader not in before.isr + before.elr or leader in self.wiped[item]

    def _lose(self, item: Item, state: PartitionState) -> None:
        """Note an unclean election: committed is what the leader has on its disk.

        That may be what an earlier election has lost.
        """
        key, committed, known = (item, state.leader), self.committed[item], self._known[item]
        known.update({(at, each.epoch): each for at, each in committed.items()})
        end = self._starts[key]  # below, it was deleted
        kept = {at: each for at, each in committed.items() if each.end_offset <= end}
        for at, epoch in self._epochs[key].items():
            batch = known.get((at, epoch))
            if batch is None or not self.has(*key, batch):
                break
            kept[at] = batch
            end = batch.end_offset
        self.lost_count += sum(
            each.end_offset - at for at, each in committed.items() if kept.get(at) is not each
        )
        self.committed[item], self.committed_end[item] = kept, end
        self._sequences[item] = {
            each.sequence: at for at, each in kept.items() if each.sequence is not None
        }
        self.latest[item] = min(self.latest[item], end)
        # One that an earlier election has passed over may have what was deleted before that.
        deleted = self._ever_deleted[item] = max(self._ever_deleted[item], self.deleted[item])
        self.deleted[item] = min(deleted, end)
        self.wiped[item].discard(state.leader)
        self.losses[item] += 1
        self._unclean[item] = state.leader_epoch

    # ---- clients
    # ---------------------------------------------------------------------------------------------

    def acknowledged(self, item: Item, epoch: int, process: str) -> None:
        """Check whoever tells a client that a batch was written."""
        if epoch < self._unclean[item]:
            raise Violation(f"{process} acknowledges {item} in epoch {epoch}, after it was lost")
        writer = self._writers.setdefault((item, epoch), process)
        if writer != process:
            raise Violation(f"{writer} and {process} acknowledge {item} in epoch {epoch}")

    def heard(self, item: Item, base_offset: int, batch: bytes) -> None:
        """Check an acknowledgement of all in-sync replicas."""
        stored = self.committed[item].get(base_offset)
        if stored is None or not same_but_for_the_place(stored.data, batch):
            raise Violation(f"acknowledged and not committed: {item} at {base_offset}")
        self.acknowledged_count += 1

    def read(self, item: Item, position: int, data: bytes) -> int:
        """Check what a consumer has got; return its next position."""
        for batch in split(data):
            stored = self.committed[item].get(batch.base_offset)
            if stored is None or stored.data != batch.data:
                raise Violation(f"read and not committed: {item} at {batch.base_offset}")
            is_next = batch.base_offset <= max(position, self.deleted[item])
            if batch.end_offset <= position or not is_next:
                raise Violation(f"{item}: {batch.base_offset} read at {position}")
            position = batch.end_offset
        return position

    def answered_latest(self, item: Item, offset: int, known_before: int) -> None:
        """Check the answer to a question for the latest offset (KIP-207)."""
        if offset < known_before:
            raise Violation(f"{item}: the latest offset was {known_before} and is {offset}")
        self.latest[item] = max(self.latest[item], offset)

    # ---- the end
    # ---------------------------------------------------------------------------------------------

    def check_replica(self, item: Item, process: str, log: PartitionLog) -> None:
        """Check a replica once everything has settled."""
        end = self.committed_end[item]
        shown = f"{process}, {item}: {log.high_watermark} of {log.log_end_offset}, not {end}"
        if not log.high_watermark == log.log_end_offset == log.kept_offset == end:
            raise Violation(f"a replica lags, {shown}")
        if log.is_loading:
            raise Violation(f"{process} is cutting {item}")
        start = log.log_start_offset
        kept = [each for each in self.committed[item].values() if each.end_offset > start]
        if [each.data for each in _visible(log, start)] != [each.data for each in kept]:
            raise Violation(f"a replica has other bytes, {shown}")


class _Shown:
    """What a violation shows: it is formatted only then, and nearly never."""

    __slots__ = ("_text", "_values")

    def __init__(self, text: str, *values: object) -> None:
        self._text = text
        self._values = values

    def __str__(self) -> str:
        return self._text.format(*self._values)


def _place(seen: Seen, item: Item, batch: Stored) -> str:
    return f"{seen.process}, {item} at {batch.base_offset}, epoch {batch.epoch}"


def _end(log: PartitionLog) -> int:
    """Return the end of what a replica has written, or has not lost."""
    damage = log.first_damage
    return log.local_end if damage is None else min(damage, log.local_end)


def _visible(log: PartitionLog, offset: int) -> Iterator[Stored]:
    """Yield the batches below the high watermark; not one that it is within."""
    while offset < log.high_watermark:
        batches = [*split(log.read(offset, EVERYTHING))]
        if not batches:
            return
        yield from batches
        offset = batches[-1].end_offset


def _unseen(log: PartitionLog, seen: Seen) -> Iterator[Stored]:
    for segment, data in written(log, seen.segment, seen.position):
        for batch in split(data):
            if batch.end_offset > _end(log):
                return  # it is staged, not written as a whole, or after damage
            if segment != seen.segment:
                seen.segment, seen.position = segment, 0
            seen.position += len(batch.data)
            yield batch
