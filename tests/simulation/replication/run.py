"""Runs one seed of replicated partitions: faults, a time to settle, and the checks at the end."""

import gc
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from broker.core.cluster import placement, records, topics
from broker.core.cluster.controller import ControllerSettings
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.core.cluster.writes import Item, Write
from broker.storage.metadata import KeyValue, Put
from tests.simulation.cluster.audit import Audit
from tests.simulation.cluster.broker import registration
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.replicas import Disk
from tests.simulation.cluster.store import SimulatedStore
from tests.simulation.draws import Draws
from tests.simulation.replication.audit import ReplicationAudit
from tests.simulation.replication.broker import ReplicatedBroker
from tests.simulation.replication.clients import Consumer, Deleter, Operator, Producer
from tests.simulation.replication.disk_failures import DiskFailures
from tests.simulation.replication.moves import Moves
from tests.simulation.replication.network import CLIENTS, Network
from tests.simulation.replication.storage import Disks, Storage, recorded_disks
from tests.simulation.seeds import or_drawn
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import Task, VirtualTime

FAULTS_MS = 12_000
SETTLE_MS = 25_000
LOOK_MS = 500
EVENTS_KEPT = 150
COLLECTED_TOGETHER = 10  # histories: each has a megabyte, and some dozens of open files
KINDS = (
    "kill",
    "power cut",
    "wipe",
    "damage",
    "stop",
    "cut",
    "lone",
    "last",
    "drain",
    "slow",
    "fill",
    "store",
)


class Scenario(NamedTuple):
    """What all runs of a search have in common; what is None is another one in each run."""

    size: int | None = None  # brokers
    factor: int | None = None  # replicas
    min_isr: int | None = None
    unclean: str | None = None  # elections, as "setting" of the topic, or by an "operator"
    reassigns: bool | None = None
    segment_bytes: int | None = None
    faults: dict[str, int] | None = None  # by kind: how often it is chosen
    interval_ms: int | None = None  # between faults
    loss_rate: float | None = None  # of the disks of those that are added to an ISR
    controller_rate: float | None = None  # of faults that hit the controller
    lag_rate: float | None = None  # of watches
    store_loss_rate: float | None = None  # of changes of the store, which may be made later
    repeat_rate: float | None = None  # of messages
    log_failures: bool | None = None  # of one of the disks of a broker
    moves: bool | None = None  # of logs between directories


ANY = Scenario()


class ReplicationSimulation:
    """Brokers with replicas, a store, and clients."""

    def __init__(self, seed: int, disks: Disks, scenario: Scenario = ANY) -> None:
        self.rng = rng = Draws(seed)
        self.time = VirtualTime()
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._scenario = scenario
        self.size = or_drawn(scenario.size, rng.choice((2, 3, 3, 3, 4)))
        self.factor = or_drawn(scenario.factor, rng.choice((2, 3, 3)) if self.size > 2 else 2)
        self.min_isr = rng.randint(1, self.factor)
        # By whom elections may be unclean: the topic's setting, or an operator.
        unclean = or_drawn(scenario.unclean, rng.choice(("setting", "operator", *[""] * 8)))
        self._is_lossy = unclean == "operator"
        if unclean and rng.random() < 0.8:
            self.min_isr = 1  # with more, whoever leaves the ISR is eligible
        self.min_isr = or_drawn(scenario.min_isr, self.min_isr)
        self._reassigns = or_drawn(scenario.reassigns, rng.random() < 0.25)
        self.settings = ControllerSettings(
            is_shared=False,
            imbalance_interval_ms=rng.choice((2_000, 5_000)),
            imbalance_percentage=rng.choice((0, 10)),
            defaults=ReplicaSettings(self.min_isr, unclean == "setting"),
        )
        self.brokers: list[ReplicatedBroker] = []
        self._disks = disks
        self.disks: defaultdict[int, Disk] = defaultdict(Disk)  # what the cluster's audit knows
        self.audit = Audit(lambda: self.brokers, self.disks, self.settings)
        self.audit.is_lost_unregistered = True
        self.store = SimulatedStore(rng, self.time, self.audit)
        self.network = Network(rng, self.time)
        self.lost_id = 0
        if self.factor > self.min_isr and rng.random() < 0.3:
            self.lost_id = rng.randint(1, self.size)
        self.fewest_replicas = self.min_isr + (self.lost_id > 0)
        self.replicas = ReplicationAudit(self.audit.image, self.min_isr)
        self.audit.state_changed = self._state_changed
        segment_bytes = or_drawn(scenario.segment_bytes, rng.choice((1_048_576, 4_096, 20_000)))
        settings = {"segment.bytes": str(segment_bytes)}
        # What the disk has not is lost in a power cut: such a topic promises nothing then.
        self.is_os = rng.random() < 0.15
        if self.is_os:
            settings["polylog.durability"] = "os"
        self.storages = {
            each: Storage(rng, disks, each, settings) for each in range(1, self.size + 1)
        }
        self.items: list[Item] = []
        self.is_faulty = True
        self.is_ending = False
        # How often each kind of fault occurs in this run, and how fast they follow.
        self._weights = [rng.choice((0, 1, 1, 4)) for _ in KINDS]
        if scenario.faults is not None:
            self._weights = [scenario.faults.get(each, 0) for each in KINDS]
        if self.is_os:
            self._weights[KINDS.index("power cut")] = 0
        self._interval_ms = or_drawn(scenario.interval_ms, rng.choice((300, 1_000, 3_000)))
        # Of disks of those that are added.
        self._loss_rate = or_drawn(scenario.loss_rate, rng.choice((0.0, 0.0, 0.1, 0.3)))
        self._slow_syncs: dict[int, int] = {}  # brokers with slow syncs: the longest ms
        self._producers: list[Producer] = []
        self.moves: Moves | None = None
        self._processes = 0
        self._kept_down: set[int] = set()  # until others have failed, or they have a disk
        self._is_lost = False
        self._registered: list[int] = []  # the brokers' epochs when it was looked last

    def note(self, event: str) -> None:
        """Record an event, for the analysis of a violation."""
        self.events.append(f"{self.time.now_ms:>7} {event}")

    # ---- a run
    # ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        rng, scenario = self.rng, self._scenario
        for broker_id in self.storages:
            self.start(broker_id)
        self.time.after(300, self._create)
        self.time.after(1_500, self._trouble)
        self.time.run_until(1_500)
        self.store.loss_rate = or_drawn(scenario.store_loss_rate, rng.choice((0.0, 0.0, 0.05)))
        self.store.lag_rate = or_drawn(scenario.lag_rate, rng.choice((0.0, 0.05, 0.3)))
        self.network.loss_rate = rng.choice((0.0, 0.01, 0.1))
        self.network.repeat_rate = or_drawn(scenario.repeat_rate, rng.choice((0.0, 0.01, 0.1)))
        self.time.run_until(FAULTS_MS)
        self._heal()
        for end_ms in range(FAULTS_MS + LOOK_MS, FAULTS_MS + SETTLE_MS, LOOK_MS):
            self.time.run_until(end_ms)
            if end_ms >= FAULTS_MS + 2_000 and self.lost_id and not self._is_lost:
                self._lose()
            if end_ms >= FAULTS_MS + 5_000:
                self.is_ending = True
            if self._has_settled():
                return
        self._check()

    def _heal(self) -> None:
        self.is_faulty = False
        self.note("--- no more faults")
        self.store.loss_rate = self.store.lag_rate = 0.0
        self.network.loss_rate = self.network.repeat_rate = 0.0
        self.network.cuts.clear()
        self._slow_syncs.clear()
        for each, storage in self.storages.items():
            self._disks.set_full(each, is_full=False)
            storage.missing.clear()
        if not self.store.is_available:
            self.store.set_available(is_available=True)
        for broker in list(self.brokers):
            if not broker.process.is_running:
                broker.process.resume()
            if broker.storage.failed:
                self.replace(broker)
        for broker_id in self.storages:
            self._start_unless_running(broker_id)

    def _lose(self) -> None:
        """Let a broker fail for good, once all have everything and are there.

        They were there when it was looked last, too: of one that has just registered anew, the
        states of partitions do not say yet that it was gone.
        """
        image = self.audit.image
        before, self._registered = (
            self._registered,
            [each.membership.epoch for each in self.brokers],
        )
        is_registered = all(
            image.is_registered(each.broker_id, each.membership.epoch) for each in self.brokers
        )
        states = [image.state(*item) for item in self.items]
        # (A controller that elects and does not know all members yet makes one the only member.)
        is_whole = all(
            state is not None and state.leader != NO_LEADER and {*state.isr} == {*state.replicas}
            for state in states
        )
        is_whole = is_whole and self._may_wipe(self.lost_id)
        is_registered = is_registered and before == self._registered
        if is_whole and is_registered and len(self.brokers) == self.size:
            self._is_lost = True
            for broker in list(self.brokers):
                if broker.broker_id == self.lost_id:
                    self._kill(broker)

    def _has_settled(self) -> bool:
        if not self.is_ending or (self.lost_id and not self._is_lost):
            return False
        try:
            self._check()
        except Violation:
            return False
        return True

    def _check(self) -> None:
        if self.lost_id and not self._is_lost:
            raise Violation("the ISRs are not whole again")
        waiting = [each.number for each in self._producers if not each.is_done]
        if waiting:
            raise Violation(f"producers {waiting} do not get on")
        self.audit.check_settled(*self.store.data.scan())
        for item in self.items:
            state = self.audit.image.state(*item)
            assert state is not None
            alive = [each for each in state.replicas if each != self.lost_id]
            if sorted(state.isr) != sorted(alive):
                raise Violation(f"{item} is not whole again: {state}")
            for broker in self.brokers:
                if broker.broker_id in state.replicas:
                    self.replicas.check_replica(item, broker.name, broker.logs[item])

    # ---- what brokers and clients need
    # ---------------------------------------------------------------------------------------------

    def broker(self, broker_id: int) -> ReplicatedBroker | None:
        """Return the process of a broker, if there is one."""
        return next((each for each in self.brokers if each.broker_id == broker_id), None)

    def leader_for_clients(self, item: Item) -> int:
        """Return whom a client takes for the leader."""
        state = self.audit.image.state(*item)
        assert state is not None
        if self.is_faulty and self.rng.random() < 0.1:
            return self.rng.choice(state.replicas)
        return state.leader if state.leader > 0 else state.replicas[0]

    def sync_times(self, broker_id: int) -> tuple[int, int]:
        """Return when a sync begins, and how long it takes."""
        longest_ms = self._slow_syncs.get(broker_id, 8)
        return self.rng.randrange(3), self.rng.randrange(1, longest_ms)

    # ---- brokers
    # ---------------------------------------------------------------------------------------------

    def start(self, broker_id: int) -> None:
        """Start a process for a broker id."""
        self._processes += 1
        process = Process(self.time, self.rng.randrange(1, 1 << 30))
        disk = self.disks[broker_id]
        self.audit.processes[f"process-{self._processes}"] = disk
        disk.intact_since = self.storages[broker_id].start(process.now_ms())
        broker = ReplicatedBroker(
            self.rng,
            process,
            self.store,
            self.audit,
            self.settings,
            registration(broker_id, host=f"host{broker_id}", intact_since=disk.intact_since),
            (broker_id, self._processes),
            disk,
            sim=self,
        )
        self.brokers.append(broker)
        for item, log in self.storages[broker_id].logs.items():  # before it can be elected
            if not log.is_offline:
                self.replicas.opened(item, broker_id, broker.name, log)
        process.at_death(lambda: self.brokers.remove(broker))
        self.note(f"{broker.name} starts")
        broker.start()
        self._watch(broker)

    def _watch(self, broker: ReplicatedBroker) -> None:
        if broker.has_left:
            self.replace(broker)
        elif broker.process.is_alive:
            self.time.after(250, lambda: self._watch(broker))

    def _kill(self, broker: ReplicatedBroker, how: str = "kill") -> None:
        if broker.process.is_alive:
            self.note(f"{broker.name} ends: {how}")
            broker.process.kill()
            self.storages[broker.broker_id].crash(is_power_cut=how == "power cut")

    def replace(self, broker: ReplicatedBroker, how: str = "kill") -> None:
        if broker.process.is_alive:
            self._kill(broker, how)
            delay_ms = self.rng.choice((50, 500, 3_000)) if self.is_faulty else 50
            self.time.after(delay_ms, lambda: self._start_unless_running(broker.broker_id))

    def _start_unless_running(self, broker_id: int) -> None:
        if broker_id == self.lost_id and self._is_lost:
            return
        if self.broker(broker_id) is None and broker_id not in self._kept_down:
            self.start(broker_id)

    def _state_changed(self, state: PartitionState) -> None:
        """Check what a new state says; the image has it already."""
        for item in self.items:
            if self.audit.image.state(*item) is state:
                self.note(f"{item[0][-2:].decode()}/{item[1]}: {state}")
                self.replicas.state_changed(item, state)

    # ---- faults
    # ---------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if not self.is_faulty:
            return
        rng = self.rng
        self.time.after(rng.randrange(50, 2 * self._interval_ms), self._trouble)
        if not self.brokers or not any(self._weights):
            return
        [kind] = rng.choices(KINDS, self._weights)
        broker = rng.choice(self.brokers)
        controller = self.audit.image.controller
        if controller is not None and rng.random() < or_drawn(self._scenario.controller_rate, 0.25):
            broker = self.broker(controller.claim.broker) or broker
        if kind in ("kill", "power cut"):
            victims = list(self.brokers) if rng.random() < 0.1 else [broker]
            for each in victims:
                self.replace(each, kind)
        elif kind in ("wipe", "damage"):
            self._kept_down.add(broker.broker_id)
            self._kill(broker, kind)
            self._wipe(broker.broker_id, is_whole=kind == "wipe")
        elif kind == "store":
            self._trouble_store()
        else:
            self.note(f"--- {kind}: {broker.name}")
            getattr(self, f"_{kind}")(broker)

    def replace_disk(self, broker: ReplicatedBroker, items: Sequence[Item]) -> None:
        """Let a broker fail, and have an empty disk in the place of the one of some logs."""
        self._kept_down.add(broker.broker_id)
        self._kill(broker, "wipe")
        self._wipe(broker.broker_id, items=items)

    def _wipe(self, broker_id: int, *, is_whole: bool = True, items: Sequence[Item] = ()) -> None:
        """Give a broker that has failed another disk, once its registration has ended.

        Or, unless it is the whole one, let its disk lose records that were synced. With `items` it
        is a disk that has only their logs.
        """
        image = self.audit.image
        if broker_id in image.brokers or broker_id in image.fenced:
            again = partial(self._wipe, broker_id, is_whole=is_whole, items=items)
            self.time.after(100, again)
            return
        if items and self._may_wipe(broker_id):
            self.storages[broker_id].lose(set(items))
            self._lost_disk(broker_id, items)
        elif not items and self._may_wipe(broker_id):
            # (A leader with a hole in its log, after an unclean election, is beyond the audit.)
            is_unclean = self._is_lossy or self.settings.defaults.is_unclean_allowed
            is_damaged = not is_whole and self.storages[broker_id].damage(
                leaves_holes=not is_unclean
            )
            self.note(f"broker {broker_id} has lost {'records' if is_damaged else 'its disk'}")
            if not is_damaged:
                self.storages[broker_id].wipe()
            if self.rng.random() < 0.5:
                self.network.repeat_last(broker_id)
            self._lost_disk(broker_id, self.items)
        self._kept_down.discard(broker_id)
        self._start_unless_running(broker_id)
        if self.is_faulty and self.rng.random() < 0.3:  # it fails again, as soon as it is there
            broker = self.broker(broker_id)
            assert broker is not None
            self.time.after(self.rng.choice((1, 50, 500)), lambda: self._fail_again(broker))

    def _lost_disk(self, broker_id: int, items: Sequence[Item]) -> None:
        self.disks[broker_id] = Disk()
        self.audit.emptied.add(broker_id)
        self.replicas.lost_disk(broker_id, items)

    def _fail_again(self, broker: ReplicatedBroker) -> None:
        if broker.process.is_alive and broker.membership.epoch == NO_EPOCH and self.is_faulty:
            self.time.after(1, lambda: self._fail_again(broker))
        elif broker.process.is_alive:
            self.replace(broker)
            if self.rng.random() < 0.7:
                self.store.end_lease_of(broker.broker_id)

    def isr_is_written(self, write: Write) -> None:
        """Let who is being added to an ISR lose its disk, sometimes, before it is a member."""
        if not self.is_faulty or self.rng.random() >= self._loss_rate:
            return
        for put in write.transaction.operations:
            entry = KeyValue(put.key, put.value, 0, 0) if isinstance(put, Put) else None
            if entry is None:
                continue
            item = records.parse_partition_key(put.key)
            before, after = self.audit.image.state(*item), records.parse_partition(entry)
            assert before is not None
            for each in after.isr:
                if each not in before.isr:
                    self.time.after(self.rng.randrange(10), partial(self._lose_disk, each))

    def _lose_disk(self, broker_id: int) -> None:
        """Let a broker fail, its registration end at once, and its disk be lost."""
        broker = self.broker(broker_id)
        if broker is not None and self.is_faulty:
            self._kept_down.add(broker_id)
            self._kill(broker, "wipe")
            self.store.end_lease_of(broker_id)
            self._wipe(broker_id)

    def _may_wipe(self, broker_id: int) -> bool:
        """Return whether everything committed is on the disk of another member of the ISR.

        One that has not noted since when its directory is intact may have all, and cannot tell.
        """
        image = self.audit.image
        unsure = {each for each, disk in self.disks.items() if disk.intact_since == NO_EPOCH}
        for item in self.items:
            state = image.state(*item)
            assert state is not None
            others = set(state.isr) - {broker_id} - self.replicas.wiped[item] - unsure
            if broker_id in state.replicas and not others:
                return False
        return True

    def _stop(self, broker: ReplicatedBroker) -> None:
        if broker.process.is_running:
            broker.process.stop()
            duration_ms = self.rng.choice((300, 2_000, 2_800, 3_500, 5_000))
            self.time.after(duration_ms, lambda: self._resume(broker))

    def _resume(self, broker: ReplicatedBroker) -> None:
        if broker.process.is_alive and not broker.process.is_running:
            self.note(f"{broker.name} runs again")
            broker.process.resume()

    def _cut(self, broker: ReplicatedBroker) -> None:
        rng = self.rng
        others = [CLIENTS, *self.storages]
        ends = [rng.choice(others)] if rng.random() < 0.7 else others
        cuts = set()
        for other in ends:
            link = (broker.broker_id, other)
            cuts |= {link} if rng.random() < 0.3 else {link, link[::-1]}
        self.network.cuts |= cuts
        self.time.after(
            rng.choice((200, 1_500, 4_000)), lambda: self.network.cuts.difference_update(cuts)
        )

    def _lone(self, broker: ReplicatedBroker) -> None:
        """Cut a broker from the others, not from clients, and kill it: it has what nobody has."""
        others = [each for each in self.storages if each != broker.broker_id]
        links = [(broker.broker_id, other) for other in others]
        cuts = {*links, *(link[::-1] for link in links)}
        self.network.cuts |= cuts

        def end() -> None:
            self.network.cuts -= cuts
            self.replace(broker, "kill" if self.is_os or self.rng.random() < 0.7 else "power cut")

        self.time.after(self.rng.choice((50, 300, 1_200)), end)

    def _last(self, broker: ReplicatedBroker) -> None:
        """Let a broker outlive the others, and fail when they come back: it has what nobody has."""
        others = [each.broker_id for each in self.brokers if each is not broker]
        self._kept_down.update(others)
        for each in list(self.brokers):
            if each is not broker:
                self._kill(each)

        def end() -> None:
            if self.is_faulty:
                self._kill(broker)
                delay_ms = self.rng.choice((500, 3_000, 6_000))
                self.time.after(delay_ms, lambda: self._start_unless_running(broker.broker_id))
            self._kept_down.difference_update(others)
            for each in others:
                self._start_unless_running(each)

        self.time.after(self.rng.choice((300, 2_000, 4_000)), end)

    def _drain(self, broker: ReplicatedBroker) -> None:
        broker.drain()

    def _slow(self, broker: ReplicatedBroker) -> None:
        """Let a disk's syncs take long, for a while."""
        self._slow_syncs[broker.broker_id] = self.rng.choice((50, 400, 2_500))
        self.time.after(self.rng.choice((1_000, 4_000)), partial(self._fast, broker.broker_id))

    def _fast(self, broker_id: int) -> None:
        self._slow_syncs.pop(broker_id, None)

    def _fill(self, broker: ReplicatedBroker) -> None:
        """Let a broker's logs find no space, for a while."""
        broker_id = broker.broker_id
        self._disks.set_full(broker_id, is_full=True)
        self.time.after(
            self.rng.choice((100, 1_000, 4_000)),
            lambda: self._disks.set_full(broker_id, is_full=False),
        )

    def _trouble_store(self) -> None:
        rng, store = self.rng, self.store
        if rng.random() < 0.3:
            store.compacted = store.data.revision
        elif store.is_available:
            duration_ms = rng.choice((500, 2_000, 4_500))
            self.note(f"--- the store is unavailable for {duration_ms} ms")
            store.set_available(is_available=False)
            self.time.after(duration_ms, self._repair_store)

    def _repair_store(self) -> None:
        if not self.store.is_available:
            self.store.set_available(is_available=True)

    # ---- clients
    # ---------------------------------------------------------------------------------------------

    def _create(self) -> None:
        """Create a topic, once all brokers are there."""
        broker = self.brokers[0]
        if len(broker.image.brokers) < self.size:
            self.time.after(100, self._create)
            return
        rng = self.rng
        topic_id = b"topic %010d" % 1
        placed = complete(placement.place(broker.image, rng.choice((1, 1, 2)), self.factor, 0))
        transaction = topics.creation(broker.image, "topic", topic_id, placed)
        self.note(f"{broker.name} creates {placed}")
        self.store.transact(broker.process, transaction, lambda _: None)
        self.items = [(topic_id, partition) for partition in range(len(placed))]
        self.time.after(500, self._use)

    def _use(self) -> None:
        for item in self.items:
            if self.audit.image.state(*item) is None:
                self.time.after(100, self._use)
                return
        for item in self.items:
            for _ in range(self.rng.randint(1, 3)):
                producer = Producer(self, len(self._producers) + 1, item)
                self._producers.append(producer)
                Task(producer.run(), self.time.answer())
            if self.rng.random() < 0.3:
                Task(Deleter(self, item).run(), self.time.answer())
            if self._reassigns:
                Task(Operator(self, item, is_lossy=False).run(), self.time.answer())
            if self._is_lossy:
                Task(Operator(self, item, is_lossy=True).run(), self.time.answer())
            for _ in range(2):
                Task(Consumer(self, item).run(), self.time.answer())


def run(seed: int, scenario: Scenario = ANY) -> ReplicationSimulation:
    """Run a seed to its end.

    Raises:
        Violation: with the seed and the last events.
    """
    with recorded_disks() as disks:
        sim = ReplicationSimulation(seed, disks, scenario)
        failures = DiskFailures(sim, seed)
        if or_drawn(scenario.log_failures, failures.are_drawn):
            failures.begin()
        moves = sim.moves = Moves(sim, seed)
        if or_drawn(scenario.moves, moves.are_drawn):
            moves.begin()
        try:
            with moves.prepared():
                sim.run()
        except Violation as violation:
            raise Violation(
                f"{violation}\nseed {seed}, the last events:\n" + "\n".join(sim.events)
            ) from violation
    return sim


def run_all(seeds: Iterable[int], scenario: Scenario = ANY) -> None:
    """Run many seeds.

    A history leaves cycles of objects: those of some are collected at once, without a look at
    what there is besides.
    """
    gc.disable()
    try:
        for number, seed in enumerate(seeds, 1):
            run(seed, scenario)
            if number % COLLECTED_TOGETHER == 0:
                gc.collect(0)
    finally:
        gc.enable()
