"""A broker of the cluster's simulation with replicas: roles, syncs, reads by followers, the ISR.

the role       leader or follower, as the image says of this incarnation
syncs          one at a time, each takes some ms; what is written meanwhile is covered by the next
a follower     asks each leader that it follows: one request at a time, with what its disk has
a leader       answers at once if it has anything to say, or when it has, or after a while
the ISR        a machine of the product writes it; followers are added and removed
a client       is answered only while the lease lasts
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.core.cluster.failed_logs import FailedLogs
from broker.core.cluster.image import Delta
from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState
from broker.core.cluster.writes import Item, Write
from broker.core.replica_ends import End
from broker.model.log_results import AppendStatus, LogState
from broker.server.cluster.replicating import has_epoch_without_records, must_begin_at
from broker.storage.recovery.truncation import cut_point
from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.cluster.changes import EndsOf
from tests.simulation.cluster.store import Failure, Outcome
from tests.simulation.replication.batches import split
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.replication.audit import Seen
    from tests.simulation.replication.run import ReplicationSimulation

LAG_MS = 1_500
PARKED_MS = 500
ASK_AGAIN_MS = 1_200
BEAT_MS = 100
CHECKPOINT_MS = 2_000
STOP_MS = 1_500  # how long a leader that hands over waits for its successor
PER_PARTITION_BYTES = 4_000
OUT_OF_RANGE = "out of range"


class Asked(NamedTuple):
    """What a follower asks for one partition."""

    item: Item
    leader_epoch: int
    offset: int  # it has everything below on its disk
    last_epoch: int
    log_start: int


class ReplicaRequest(NamedTuple):
    """A follower's request."""

    replica: tuple[int, int]  # id and broker epoch
    asked: list[Asked]


class Answered(NamedTuple):
    """What a leader says of one partition."""

    item: Item
    error: str = ""
    diverging: tuple[int, int] | None = None
    data: bytes = b""
    watermark: int = -1
    log_start: int = 0


class _Parked(NamedTuple):
    request: ReplicaRequest
    answer: Callable[[list[Answered]], None]


class _Hooks:
    """What the cluster's simulation calls."""

    def __init__(self, broker: "ReplicatedBroker") -> None:
        self._broker = broker
        self.begin = broker.begin
        self.image_changed = broker.isr_changed
        self.work = broker.work_isr

    machine = None

    def start(self) -> None:
        """Do nothing: the broker starts it."""

    def tick(self) -> None:
        """Do nothing: the broker has a beat of its own."""

    def remove_failed(self, item: Item) -> None:
        """Let the leader remove a follower that has failed, while the controller does, too."""
        self._broker.remove_failed(item)

    def is_replicated(self, item: Item) -> bool:
        """Return whether everything of a partition that this process leads is acknowledged."""
        log = self._broker.logs.get(item)
        return log is not None and bool(
            not log.is_follower and log.high_watermark == log.log_end_offset
        )


class ReplicatedBroker(SimulatedBroker):
    """A process with the replicas of one broker."""

    def __init__(self, *args: Any, sim: "ReplicationSimulation") -> None:
        """Begin, on the broker's disk."""
        super().__init__(*args)
        self.sim = sim
        self.storage = sim.storages[self.broker_id]
        self.turn = self.storage.turn
        self.replication: Any = _Hooks(self)
        self.logs: dict[Item, Any] = {}
        self._seen: dict[Item, Seen] = {}
        self._is_stepping = False
        self._is_syncing = False
        self._loading: set[Item] = set()
        self._dropping: set[Item] = set()  # replicas that others have now
        self._replicas: dict[Item, tuple[int, ...]] = {}  # that a log was given
        self._stopping: set[Item] = set()  # they accept nothing: a successor is to lead them
        self._numbers: dict[int, int] = {}  # of the requests in flight, by leader
        self._count = 0
        self._quiet: dict[int, int] = {}  # no request to a leader before
        self._parked: dict[int, _Parked] = {}  # by follower
        self._written: list[tuple[Any, int, Callable[[bool], None]]] = []  # acks=1
        self._isr: IsrChanges | None = None
        self._giving_up: FailedLogs | None = None
        self.storage.when_failed = self._log_failed

    def start(self) -> None:
        super().start()
        self._beat()
        self._checkpoint()

    # ---- one step of the process
    # ---------------------------------------------------------------------------------------------

    def step(self, work: Callable[[], object]) -> None:
        """Do something as one turn of the loop does it."""
        if self._is_stepping:
            work()
            return
        self._is_stepping = True
        self.storage.begin_turn(
            now_ms=self.process.now_ms(),
            broker_epoch=self.membership.epoch,
            may_serve=self.membership.may_serve(self.process.now()),
        )
        work()
        self.storage.end_turn()
        if self.turn.isr_events:
            self._take_events()
        if self._written:
            self._answer_written()
        self._observe()
        if self._parked:
            self._answer_parked()
        if not self._is_syncing:
            self._sync_soon()
        self._is_stepping = False

    def later(self, delay_ms: int, work: Callable[[], object]) -> None:
        self.process.after(delay_ms, partial(self.step, work))

    def _observe(self) -> None:
        observe, seen, loading = self.sim.replicas.observe, self._seen, self._loading
        for item, log in self.logs.items():
            if item not in loading and not log.is_offline:
                observe(item, self.broker_id, seen[item], log)

    def _take_events(self) -> None:
        events, self.turn.isr_events[:] = list(self.turn.isr_events), []
        # The machine hears of it at once, or somewhat later.
        self.later(self._rng.choice((0, 0, 2, 40)), partial(self._caught_up, events))

    def _caught_up(self, events: list[tuple[Any, int, int]]) -> None:
        if self._isr is not None:
            for log, replica, epoch in events:
                self._isr.caught_up((log.topic_id, log.partition), replica, epoch)
            self.work_isr()

    def _answer_written(self) -> None:
        """Answer the producers that wait for this replica only."""
        waiting, self._written = self._written, []
        for log, end, written in waiting:
            if log.kept_offset >= end or log.is_offline:
                written(not log.is_offline)
            elif not log.is_follower:
                self._written.append((log, end, written))

    def _checkpoint(self) -> None:
        self.process.after(CHECKPOINT_MS, self._checkpoint)
        if not self._loading:
            self.storage.checkpoint()

    def _sync_soon(self) -> None:
        if self.storage.needs_sync():
            self._is_syncing = True
            begin_ms, length_ms = self.sim.sync_times(self.broker_id)
            self.process.after(begin_ms, lambda: self._sync(length_ms))

    def _sync(self, length_ms: int) -> None:
        self.storage.begin_syncs()
        self.later(length_ms, self._synced)

    def _synced(self) -> None:
        self.storage.end_syncs()
        self._is_syncing = False
        self._ask_all()

    def _beat(self) -> None:
        self.later(BEAT_MS, self._beat)
        now_ms = self.process.now_ms()
        self.turn.retry_full()
        if self._isr is not None:
            for log, replica in self.turn.lag_scan(now_ms, LAG_MS):
                self._isr.lagging((log.topic_id, log.partition), replica)
            self._isr.tick(now_ms)
            self.work_isr()
        if self._giving_up is not None:
            self._giving_up.tick(now_ms)
            self._give_up()
        self._ask_all()

    # ---- roles
    # ---------------------------------------------------------------------------------------------

    def _membership_changed(self) -> None:
        self.step(super()._membership_changed)

    def _keep_intact_since(self) -> None:
        super()._keep_intact_since()
        self.storage.intact.registered(self.disk.intact_since, self.storage.intact.losses)

    def begin(self, epoch: int) -> None:
        """Begin the work of one incarnation; 0: there is none."""
        self._isr = self._giving_up = None
        if epoch:
            self._giving_up = FailedLogs(
                *(self.image, (self.broker_id, epoch), sorted(self.storage.failed)),
                self._is_failed,
                self._topic_settings,
            )
            self._isr = IsrChanges(
                self.image, (self.broker_id, epoch), self._topic_settings, self.is_in_sync
            )

    def _image_changed(self, delta: Delta) -> None:
        self.step(lambda: super(ReplicatedBroker, self)._image_changed(delta))

    def isr_changed(self, delta: Delta) -> None:
        """Let the leader's machine look at what has changed."""
        if self._isr is not None:
            self._isr.image_changed(delta)
        if self._giving_up is not None:
            self._giving_up.image_changed(delta)
            self._give_up()

    def _update(self, item: Item) -> None:
        state = self.image.state(*item)
        if state is None:
            return
        if not self.is_wanted(state):
            self._leave_replica(item, state)
        elif item not in self.logs:
            if item not in self._opening:
                self._opening.add(item)
                self.later(self._rng.randrange(10), lambda: self._open(item))
        elif item not in self._loading:
            self._assume(item)

    def _leave_replica(self, item: Item, state: PartitionState) -> None:
        """Remove the replica that this broker had: it does not belong to the partition any more."""
        self._served.pop(item, None)
        log = self.logs.get(item)
        is_usable = log is not None and item not in self._loading | self.storage.failed
        if log is not None and is_usable and state.leader_epoch > log.known_epoch:
            self.follow(log, state.leader_epoch)
        if item not in self._dropping and (log is not None or self.storage.has(item)):
            self._dropping.add(item)
            self.later(self._rng.randrange(20), lambda: self._drop(item))

    def _drop(self, item: Item) -> None:
        state = self.image.state(*item)
        assert state is not None
        if self.is_wanted(state):
            self._dropping.discard(item)
            self._update(item)
            return
        if item in self.storage.failed:  # a later process removes it
            self._dropping.discard(item)
            return
        is_busy = item in self._loading or item in self._opening
        if is_busy or not self.storage.drop(item):
            self.later(5, lambda: self._drop(item))
            return
        self._dropping.discard(item)
        for each in (self.logs, self._seen, self._replicas):
            each.pop(item, None)
        self.sim.note(f"{self.name}: {item} is removed")
        self.sim.replicas.dropped(item, self.broker_id)

    def is_wanted(self, state: PartitionState) -> bool:
        """Return whether this broker keeps a replica."""
        return self.broker_id in state.replicas

    def _open(self, item: Item) -> None:
        self._opening.discard(item)
        state = self.image.state(*item)
        if state is None or not self.is_wanted(state):
            return
        log = self.storage.open(item)
        self.logs[item] = log
        self.storage.configure(log, self.sim.min_isr)
        if not log.is_offline:
            self._seen[item] = self.sim.replicas.opened(item, self.broker_id, self.name, log)
            self._assume(item)

    def _leads(self, state: PartitionState) -> bool:
        epoch = self.membership.epoch
        return bool(epoch) and (state.leader, state.broker_epoch) == (self.broker_id, epoch)

    def _assume(self, item: Item) -> None:
        """Take the role that the image has for this broker."""
        state = self.image.state(*item)
        log = self.logs[item]
        if state is None or log.is_offline or state.leader_epoch < log.known_epoch:
            return
        if not self._leads(state):
            self._served.pop(item, None)
            if not log.is_follower or state.leader_epoch != log.known_epoch:
                self.follow(log, state.leader_epoch)
                self._ask_all()
            return
        if self._isr is None:
            return  # it is not registered: it will look again when it is
        isr = list(self._isr.maximal(item))
        is_new = log.is_follower or log.known_epoch != state.leader_epoch
        accepts = state.successor == NO_LEADER
        if accepts and item in self._stopping:
            log.follow(state.leader_epoch)  # a leader that has stopped leads anew
            is_new = True
        if is_new or self._replicas.get(item) != state.replicas:
            self.lead(log, state, isr, self._isr.committed(item))
            self._replicas[item] = state.replicas
        if is_new:
            self._stopping.discard(item)
        log.set_isr(isr, self._isr.committed(item))
        if is_new:
            log.elected()
            self.sim.replicas.led(item, self.broker_id, self._seen[item], state.leader_epoch)
        if accepts:
            self._served[item] = state.broker_epoch, state.leader_epoch
            self._check_served([item])

    def follow(self, log: Any, leader_epoch: int) -> None:
        """Become a follower; its end is what the leader will say."""
        log.follow(leader_epoch)

    def lead(self, log: Any, state: PartitionState, isr: list[int], committed: int) -> None:
        """Become the leader, or lead with another ISR."""
        log.lead(state.leader_epoch, self.broker_id, list(state.replicas), isr, committed)

    def is_in_sync(self, item: Item, replica_id: int, replica_epoch: int) -> bool:
        log = self.logs.get(item)
        if log is None or log.is_follower or log.is_offline:
            return False
        start = max(log.high_watermark, log.epoch_start)
        return any(
            (each, epoch) == (replica_id, replica_epoch) and end >= start
            for each, epoch, end, _ in log.replica_states()
        )

    def _stop(self, item: Item) -> None:
        """Stop accepting, and hand over once the successor has everything."""
        if self._state(item) is not None or item not in self.logs:
            return  # it has no successor any more
        self._stopping.add(item)
        self.step(self.logs[item].stop_accepting)
        self._stopped(item, self.process.now_ms() + STOP_MS)

    def _stopped(self, item: Item, due_ms: int) -> None:
        state = self.image.state(*item)
        if state is None or not self._leads(state) or self._state(item) is not None:
            return
        log = self.logs[item]
        if log.high_watermark < log.log_end_offset and self.process.now_ms() < due_ms:
            self.process.after(20, lambda: self._stopped(item, due_ms))
            return
        self._served.pop(item, None)
        if self._hand_over is not None:
            self._hand_over.stopped(item)
            self._work(self._hand_over)

    # ---- the ISR
    # ---------------------------------------------------------------------------------------------

    def remove_failed(self, item: Item) -> None:
        """Report a member that is not registered any more as one that lags."""
        state = self._state(item)
        if self._isr is None or state is None:
            return
        for each in state.isr:
            if each not in self.image.brokers:
                self._isr.lagging(item, each)
        self.work_isr()

    def work_isr(self) -> None:
        machine = self._isr
        if machine is None:
            return
        while True:
            for item in machine.take_changed():
                log, state = self.logs.get(item), self.image.state(*item)
                if log is None or log.is_offline or state is None or not self._leads(state):
                    continue
                if not log.is_follower and log.known_epoch == state.leader_epoch:
                    log.set_isr(list(machine.maximal(item)), machine.committed(item))
            if not machine.has_work:
                return
            write = machine.work()
            if write is not None:
                self.sim.isr_is_written(write)
                self._write_isr(machine, write)

    def _write_isr(self, machine: IsrChanges | FailedLogs, write: Write) -> None:
        def done(outcome: Outcome) -> None:
            if machine in (self._isr, self._giving_up):
                self.step(lambda: conclude(outcome))

        def conclude(outcome: Outcome) -> None:
            if isinstance(outcome, Failure):
                machine.unknown(write, self.process.now_ms())
            elif outcome is None:
                machine.refused(write, self.process.now_ms())
            else:
                machine.applied(write, outcome)
            self.work_isr()
            self._give_up()

        self._store.transact(self.process, write.transaction, done)

    # ---- failed logs
    # ---------------------------------------------------------------------------------------------

    def fail(self, items: Sequence[Item]) -> None:
        """Let the disk of some logs fail, except those that are being cut."""
        failed = [each for each in items if each in self.logs and each not in self._loading]
        self.sim.note(f"{self.name}: the disk of {failed} fails")
        self.step(lambda: self.storage.fail(failed))

    def _log_failed(self, item: Item) -> None:
        self._served.pop(item, None)
        self.sim.audit.failed.add((item, self.broker_id))
        self.later(self._rng.choice((0, 40, 400)), partial(self._report_failed, item))

    def _report_failed(self, item: Item) -> None:
        if self._giving_up is not None:
            self._giving_up.failed(item)
            self._give_up()

    def _is_failed(self, topic_id: bytes, partition: int, epoch: int) -> bool:
        log = self.logs.get((topic_id, partition))
        return log is not None and log.is_offline and bool(log.leader_epoch <= epoch)

    def _give_up(self) -> None:
        machine = self._giving_up
        while machine is not None and machine.has_work:
            write = machine.work()
            if write is not None:
                self._write_isr(machine, write)

    # ---- as a follower
    # ---------------------------------------------------------------------------------------------

    def position_of(self, log: Any) -> int:
        """Return the offset below which a log's records are on the disk."""
        return int(log.kept_offset)

    def _ask_all(self) -> None:
        """Ask each leader that has answered, once the disk has what it has sent."""
        if self.membership.epoch == NO_EPOCH:
            return
        followed: dict[int, list[Asked]] = {}
        waiting: set[int] = set()
        for item, log in self.logs.items():
            leader = self._followed_leader(item, log)
            if leader == NO_LEADER or leader in self._numbers:
                continue
            if self.is_repaired(log):
                self._change(item, log, log.first_damage)
                continue
            position = self.position_of(log)
            if position < log.log_end_offset:
                waiting.add(leader)
            entries = log.epoch_entries
            # A log that was begun anew and has nothing yet, or has no epochs left, has no history.
            is_new = log.segment_entries[0][0] == log.log_end_offset > 0
            is_cut = log.log_start_offset == log.log_end_offset > 0 == log.leader_epoch
            last_epoch = -1 if is_new or is_cut or not entries else entries[-1][0]
            followed.setdefault(leader, []).append(
                Asked(item, log.known_epoch, position, last_epoch, log.log_start_offset)
            )
        now_ms = self.process.now_ms()
        for leader, asked in followed.items():
            if leader not in waiting and self._quiet.get(leader, 0) <= now_ms:
                self._ask(leader, ReplicaRequest((self.broker_id, self.membership.epoch), asked))

    def _followed_leader(self, item: Item, log: Any) -> int:
        """Return from whom a log is copied now, or NO_LEADER."""
        state = self.image.state(*item)
        if state is None or not log.is_follower or state.leader_epoch != log.known_epoch:
            return NO_LEADER
        if log.is_offline:
            return NO_LEADER
        is_own = self.broker_id in state.replicas and item not in self._dropping
        if not is_own or item in self._loading or state.leader == self.broker_id:
            return NO_LEADER
        return state.leader

    def _ask(self, leader: int, request: ReplicaRequest) -> None:
        self._count += 1
        number = self._numbers[leader] = self._count
        copied = {each.item: (each.leader_epoch, self.logs[each.item]) for each in request.asked}

        def answered(answer: list[Answered]) -> None:
            if self._numbers.get(leader) == number:
                del self._numbers[leader]
                self._take_answer(leader, copied, answer)

        def give_up() -> None:
            if self._numbers.get(leader) == number:
                del self._numbers[leader]
                self.step(self._ask_all)

        def arrive() -> None:
            broker = self.sim.broker(leader)
            if broker is not None:
                broker.process.run(lambda: broker.step(lambda: broker.serve(request, reply)))

        def reply(answer: list[Answered]) -> None:
            self.sim.network.send(
                (leader, self.broker_id),
                lambda: self.process.run(lambda: self.step(lambda: answered(answer))),
            )

        self.sim.network.send((self.broker_id, leader), arrive)
        self.process.after(ASK_AGAIN_MS, give_up)

    def _take_answer(
        self, leader: int, copied: dict[Item, tuple[int, Any]], answer: list[Answered]
    ) -> None:
        """Take what a leader has said of logs; of one that is gone, nothing counts."""
        if not answer or any(each.error for each in answer):
            self._quiet[leader] = self.process.now_ms() + 30
            self.later(30, self._ask_all)
        for each in answer:
            epoch, log = copied[each.item]
            is_there = self.logs.get(each.item) is log
            if not is_there or each.item in self._loading or log.is_offline:
                continue
            if not log.is_follower or log.known_epoch != epoch:
                continue
            if each.error:
                if each.error == OUT_OF_RANGE and must_begin_at(log, each.log_start):
                    self._change(each.item, log, each.log_start, is_anew=True)
            elif each.diverging is not None:
                self._change(each.item, log, self.cut_point(log, each.diverging))
            else:
                self.append(log, each, epoch)
        self._ask_all()

    def is_repaired(self, log: Any) -> bool:
        """Return whether a log is cut before records that its disk has lost."""
        return log.first_damage is not None

    def append(self, log: Any, each: Answered, epoch: int) -> None:
        """Append what a leader has sent."""
        result = log.copy(
            each.data,
            high_watermark=each.watermark,
            log_start=each.log_start,
            leader_epoch=epoch,
        )
        if result is LogState.FULL:
            state = self.image.state(*each.item)
            if state is not None:
                self._quiet[state.leader] = self.process.now_ms() + 100
        elif result is LogState.GAP and log.log_start_offset == log.log_end_offset:
            self._change(each.item, log, 0, is_anew=True)  # it begins within a batch
        elif result is LogState.CORRUPT and has_epoch_without_records(log):
            self._change(each.item, log, log.log_end_offset)
        elif result not in (LogState.OK, LogState.NOT_LED):
            raise Violation(f"{self.name} refuses what it was sent: {result!r}")

    def cut_point(self, log: Any, diverging: tuple[int, int]) -> int:
        """Return where to cut a log whose leader names the end of an epoch."""
        return cut_point(log, *diverging)

    def _change(self, item: Item, log: Any, end: int, *, is_anew: bool = False) -> None:
        """Cut what the leader has not, or begin anew where it begins, in the I/O thread."""
        self._loading.add(item)
        log.begin_loading()

        def cut() -> None:
            readable = log.log_start_offset, log.high_watermark
            if not self.storage.truncate(log, end, is_anew=is_anew):
                self.later(5, cut)
                return
            told = self.storage.told_lost()
            self.sim.replicas.cut(self.name, item, readable, log, told)
            log.end_loading()
            self._loading.discard(item)
            what = "begins anew at" if is_anew else "is cut to"
            self.sim.note(f"{self.name}: {item} {what} {end}")
            self._observe()  # it may lead next
            self._assume(item)
            self._ask_all()

        self.later(self._rng.randrange(20), cut)

    # ---- as a leader
    # ---------------------------------------------------------------------------------------------

    def serve(self, request: ReplicaRequest, answer: Callable[[list[Answered]], None]) -> None:
        """Answer a follower, or keep its request until there is something to say."""
        replica_id, replica_epoch = request.replica
        self._answer_now(replica_id)
        if not self.is_registered(replica_id, replica_epoch):
            answer([])  # STALE_BROKER_EPOCH
            return
        parked = _Parked(request, answer)
        if not self._answer(parked, noting=True, is_late=False):
            self._parked[replica_id] = parked
            self.process.after(PARKED_MS, partial(self._answer_late, replica_id, parked))

    def is_registered(self, replica_id: int, replica_epoch: int) -> bool:
        """Return whether a request is of a follower's present incarnation."""
        return self.image.is_registered(replica_id, replica_epoch)

    def _answer_now(self, replica_id: int) -> None:
        parked = self._parked.pop(replica_id, None)
        if parked is not None:
            self._answer(parked, noting=False, is_late=True)

    def _answer_late(self, replica_id: int, parked: _Parked) -> None:
        if self._parked.get(replica_id) is parked:
            self.step(partial(self._answer_now, replica_id))

    def _answer_parked(self) -> None:
        for replica_id, parked in list(self._parked.items()):
            if not self._has_nothing_for(parked.request) and self._answer(
                parked, noting=False, is_late=False
            ):
                del self._parked[replica_id]

    def _has_nothing_for(self, request: ReplicaRequest) -> bool:
        """Return whether a follower that was told nothing still is at the ends of its leader."""
        for item, leader_epoch, offset, *_ in request.asked:
            log = self.logs.get(item)
            if log is None or log.log_end_offset != offset or log.known_epoch != leader_epoch:
                return False
            if log.is_follower or item in self._loading:
                return False
        return True

    def _answer(self, parked: _Parked, *, noting: bool, is_late: bool) -> bool:
        """Answer, unless there is nothing to say yet; return whether it was answered."""
        found = [
            self.look(each, parked.request.replica, noting=noting) for each in parked.request.asked
        ]
        if is_late or any(each.error or each.diverging or each.data for each in found):
            parked.answer(found)
            return True
        return False

    def look(self, asked: Asked, replica: tuple[int, int], *, noting: bool) -> Answered:
        """Look what there is for a follower, and note what it has."""
        item = asked.item
        log = self.logs.get(item)
        if log is None or log.is_follower or log.is_offline or item in self._loading:
            return Answered(item, "not led")
        if not self.is_epoch_right(log, asked.leader_epoch):
            return Answered(item, "another epoch")
        if replica[0] not in [each[0] for each in log.replica_states()]:
            return Answered(item, "no replica")
        diverging = self.diverges(log, asked)
        if diverging is not None:
            return Answered(item, diverging=diverging)
        if self.must_begin_anew(log, replica[0], asked):
            return Answered(item, OUT_OF_RANGE, log_start=self._first_of(log))
        if noting:
            self.note(log, replica, asked.offset)
        if not self._has(log, asked.offset):
            return Answered(item, OUT_OF_RANGE, log_start=self._first_of(log))
        data = log.read_for_replica(asked.offset, PER_PARTITION_BYTES)
        watermark = self.watermark_of(log)
        return Answered(item, data=data, watermark=watermark, log_start=log.log_start_offset)

    def _has(self, log: Any, offset: int) -> bool:
        if log.log_start_offset <= offset <= log.log_end_offset:
            return True  # so it is nearly always: the first batch is not read
        return self._first_of(log) <= offset < int(log.log_start_offset)

    def _first_of(self, log: Any) -> int:
        """Return where copies begin: copies are of whole batches."""
        start = int(log.log_start_offset)
        for batch in split(log.read_for_replica(start, 1)):
            return min(batch.base_offset, start)
        return start

    def note(self, log: Any, replica: tuple[int, int], offset: int) -> None:
        """Note what a follower has on its disk."""
        log.report(replica[0], offset, replica[1])

    def is_epoch_right(self, log: Any, leader_epoch: int) -> bool:
        """Return whether a follower means this leader."""
        return bool(leader_epoch == log.known_epoch)

    def diverges(self, log: Any, asked: Asked) -> tuple[int, int] | None:
        """Return where a follower has to cut its log, if it has what this leader has not."""
        found: tuple[int, int] | None = log.divergence(
            asked.last_epoch, asked.offset, asked.log_start
        )
        return found

    def must_begin_anew(self, log: Any, replica: int, asked: Asked) -> bool:
        """Return whether a follower's log cannot be compared with this one."""
        ends = asked.last_epoch, asked.offset, asked.log_start
        return bool(log.must_begin_anew(replica, *ends))

    def watermark_of(self, log: Any) -> int:
        """Return the high watermark that followers are told."""
        return int(log.high_watermark)

    # ---- before an unclean election
    # ---------------------------------------------------------------------------------------------

    def ask_ends(
        self, broker_id: int, items: Sequence[Item], told: Callable[[EndsOf], None]
    ) -> None:
        network, link = self.sim.network, (self.broker_id, broker_id)

        def arrive() -> None:
            broker = self.sim.broker(broker_id)
            if broker is not None:
                broker.process.run(lambda: reply(broker.ends(items)))

        def reply(ends: EndsOf) -> None:
            network.send(link[::-1], lambda: self.process.run(lambda: told(ends)))

        network.send(link, arrive)

    def ends(self, items: Sequence[Item]) -> EndsOf:
        """Return where the logs end that are not being changed."""
        return {
            item: End(self.logs[item].leader_epoch, self.logs[item].log_end_offset)
            for item in items
            if item in self.logs and item not in self._loading | self.storage.failed
        }

    # ---- clients
    # ---------------------------------------------------------------------------------------------

    def write(self, item: Item, batch: bytes, acks: int, done: Callable[[str, int], None]) -> None:
        """Append a client's batch; `done` gets an error or "", and the base offset."""
        state = self._state(item)
        if not self.serves(item) or state is None:
            done("not led", -1)
            return
        log = self.logs[item]
        epoch = log.known_epoch
        result = log.append(batch, needs_replicas=acks == -1)
        if result.status not in (AppendStatus.APPENDED, AppendStatus.DUPLICATE):
            done(result.status.name, -1)
            return

        def written(is_good: bool) -> None:
            if not self.process.is_alive:
                return  # the end of a log that a process has left
            if not self.may_acknowledge(item, epoch, is_good=is_good):
                done("failed", -1)
                return
            if acks == -1:
                self._observe()
                self.sim.replicas.acknowledged(item, epoch, self.name)
            done("", result.base_offset)

        if acks == 0:
            done("", result.base_offset)
        else:
            self.await_written(log, acks, result.end_offset, written)

    def may_acknowledge(self, item: Item, epoch: int, *, is_good: bool) -> bool:
        """Return whether a batch of an epoch may be acknowledged at this moment."""
        return is_good and self.serves(item) and bool(self.logs[item].known_epoch >= epoch)

    def await_written(self, log: Any, acks: int, end: int, written: Callable[[bool], None]) -> None:
        """Call back when a batch is where the client wants to have it."""
        if acks == -1:
            log.when_durable(end, written)
        else:
            self._written.append((log, end, written))

    def read(self, item: Item, offset: int, done: Callable[[str, bytes], None]) -> None:
        """Return what a consumer may see."""
        if not self.serves(item):
            done("not led", b"")
        elif offset > self.logs[item].log_end_offset:
            done(OUT_OF_RANGE, b"")
        else:
            log = self.logs[item]
            done("", self.visible(log, max(offset, log.log_start_offset)))

    def delete(self, item: Item, part: float, done: Callable[[str, int], None]) -> None:
        """Delete a part of what consumers see, from the beginning on."""
        if not self.serves(item):
            done("not led", -1)
            return
        log = self.logs[item]
        offset = log.log_start_offset + int(part * (log.high_watermark - log.log_start_offset))
        self.sim.replicas.deleted[item] = max(self.sim.replicas.deleted[item], offset)
        log.move_log_start(offset)
        done("", offset)

    def latest(self, item: Item, done: Callable[[str, int], None]) -> None:
        """Return the latest offset that consumers see."""
        log = self.logs.get(item)
        if log is None or not self.serves(item):
            done("not led", -1)
        elif not self.knows_latest(log):
            done("not available", -1)
        else:
            done("", log.high_watermark)

    def visible(self, log: Any, offset: int) -> bytes:
        """Return records that consumers may see."""
        data: bytes = log.read(offset, PER_PARTITION_BYTES)
        return data

    def knows_latest(self, log: Any) -> bool:
        """Return whether a leader's high watermark includes what earlier leaders have shown."""
        return bool(log.is_caught_up_leader)
