"""Runs one seed of a cluster: a period of faults, a period to settle, and the checks at the end."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from broker.core.cluster import election, eligibility, placement, topics
from broker.core.cluster.controller import ControllerSettings
from broker.core.cluster.records import NO_LEADER, PartitionState, Transaction
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.core.configs import records as config_records
from broker.model.errors import RequestError
from broker.storage import metadata
from tests.simulation.cluster.audit import Audit
from tests.simulation.cluster.broker import WALL_MS, SimulatedBroker, registration
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.replicas import Disk
from tests.simulation.cluster.replication import Replication
from tests.simulation.cluster.store import Outcome, SimulatedStore
from tests.simulation.seeds import or_drawn
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import Task, VirtualTime

FAULTS_MS = 15_000
SETTLE_MS = 25_000
LOST_MS = 2_000
LOOK_MS = 1_000
TOPICS_MAX = 6
NAMES = 7  # they are used again
EVENTS_KEPT = 100
FAULTS = {
    "store": 4,
    "kill": 2,
    "stop": 4,
    "drain": 2,
    "second process": 2,
    "empty": 2,
}


class Scenario(NamedTuple):
    """What all runs of a search have in common; what is None is another one in each run."""

    min_isr: int | None = None
    is_unclean: bool | None = None  # whether any replica may be elected
    faults: Mapping[str, int] = FAULTS  # by kind: how often it is chosen
    interval_ms: int = 2_500  # at most, between faults
    controller_rate: float = 0.0  # of faults that hit the controller, whoever that is
    loss_rate: float | None = None  # of changes of the store, which may be made later
    lag_rate: float | None = None  # of watches
    frees_at_death: bool | None = None  # whether a lease ends with its process
    joiner_loss_rate: float | None = None  # of the disks of those that are added to an ISR
    joiner_slow_rate: float = 0.1  # of those themselves
    lower_rate: float = 0.0  # among what clients do, of a lower setting of a topic with an ELR


ANY = Scenario()


class ClusterSimulation:
    """A store, brokers that come and go, and clients that create and delete topics."""

    def __init__(self, seed: int, scenario: Scenario = ANY) -> None:
        self.rng = Random(seed)
        self.time = VirtualTime()
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._scenario = scenario
        rng = self.rng
        self.settings = ControllerSettings(
            is_shared=rng.random() < 0.3,
            imbalance_interval_ms=rng.choice((2_000, 5_000)),
            imbalance_percentage=rng.choice((0, 10)),
            defaults=ReplicaSettings(
                or_drawn(scenario.min_isr, rng.choice((1, 2, 2, 3))),
                or_drawn(scenario.is_unclean, rng.random() < 0.15),
            ),
            internal_factors=(("t0", 3), ("t1", 2)) if rng.random() < 0.5 else (),
        )
        self.brokers: list[SimulatedBroker] = []  # processes that are alive
        self.disks: defaultdict[int, Disk] = defaultdict(Disk)
        self.audit = Audit(lambda: self.brokers, self.disks, self.settings)
        self.audit.state_changed = self._state_changed
        self.store = SimulatedStore(rng, self.time, self.audit)
        frees_at_death = or_drawn(scenario.frees_at_death, self.store.frees_at_death)
        self.store.frees_at_death = frees_at_death
        self.size = rng.randint(2, 4)
        # A broker that does not come back; 0: all do.
        self.lost_id = rng.randint(1, self.size) if rng.random() < 0.4 else 0
        self._is_faulty = True
        self._is_lost = False
        self._processes = 0
        self._topics = 0
        self._records = 0
        self._ids = 0

    def note(self, event: str) -> None:
        """Record an event, for the analysis of a violation."""
        self.events.append(f"{self.time.now_ms:>7} {event}")

    def run(self) -> None:
        for broker_id in range(1, self.size + 1):
            self.start(broker_id)
        self.time.after(300, self._client)
        self.time.after(300, self._produce)
        self.time.after(1_000, self._trouble)
        rng, scenario = self.rng, self._scenario
        self.store.loss_rate = or_drawn(scenario.loss_rate, rng.choice((0.0, 0.03, 0.15)))
        self.store.lag_rate = or_drawn(scenario.lag_rate, rng.choice((0.0, 0.05, 0.3)))
        self.time.run_until(FAULTS_MS)
        self._end_faults()
        for end_ms in range(FAULTS_MS + LOOK_MS, FAULTS_MS + SETTLE_MS, LOOK_MS):
            self.time.run_until(end_ms)
            if end_ms >= FAULTS_MS + 5 * LOOK_MS and self._has_settled():
                return
        self._check()

    def _end_faults(self) -> None:
        self._is_faulty = False
        self.time.after(LOST_MS, self._lose)
        self.note("--- no more faults")
        self.store.loss_rate = self.store.lag_rate = 0.0
        if not self.store.is_available:
            self.store.set_available(is_available=True)
        alive: set[int] = set()
        for broker in list(self.brokers):
            if broker.broker_id in alive:
                self._kill(broker)
                continue
            alive.add(broker.broker_id)
            if not broker.process.is_running:
                broker.process.resume()
        for broker_id in range(1, self.size + 1):
            self._start_unless_running(broker_id)

    def _lose(self) -> None:
        """Let a broker fail for ever, after all others have come back."""
        self._is_lost = True
        for broker in list(self.brokers):
            if broker.broker_id == self.lost_id:
                self._kill(broker)
        if self.lost_id and self.rng.random() < 0.5:
            self._compact_without(self.lost_id)

    def _compact_without(self, broker_id: int) -> None:
        """Compact the store when a registration has ended: some learn of that by a scan."""
        if broker_id in self.audit.image.brokers:
            self.time.after(1, lambda: self._compact_without(broker_id))
        else:
            self.store.compacted = self.store.data.revision

    def _check(self) -> None:
        self.audit.check_settled(*self.store.data.scan())
        ids = {each.broker_id for each in self.brokers if each.is_usable}
        if len(ids) < self.size - (self.lost_id > 0):
            raise Violation(f"only {ids} are registered")

    def _has_settled(self) -> bool:
        try:
            self._check()
        except Violation:
            return False
        return True

    # ---- brokers
    # ---------------------------------------------------------------------------------------------

    def start(self, broker_id: int) -> None:
        """Start a process for a broker id."""
        self._processes += 1
        process = Process(self.time, self.rng.randrange(1, 1 << 30))
        host = "host" if self.settings.is_shared else f"host{broker_id}"
        disk = self.disks[broker_id]
        self.audit.processes[f"process-{self._processes}"] = disk
        broker = SimulatedBroker(
            self.rng,
            process,
            self.store,
            self.audit,
            self.settings,
            registration(broker_id, host=host, intact_since=disk.intact_since),
            (broker_id, self._processes),
            disk,
        )
        broker.replication.peers = self._peers
        broker.replication.joins = self._joins
        self.brokers.append(broker)
        process.at_death(lambda: self.brokers.remove(broker))
        self.note(f"{broker.name} starts")
        broker.start()
        self._watch(broker)

    def _peers(self) -> list[Replication]:
        return [each.replication for each in self.brokers]

    def _watch(self, broker: SimulatedBroker) -> None:
        """Start a broker again some time after it has left."""
        if broker.has_left:
            self._replace(broker)
        elif broker.process.is_alive:
            self.time.after(250, lambda: self._watch(broker))

    def _kill(self, broker: SimulatedBroker) -> None:
        if broker.process.is_alive:
            self.note(f"{broker.name} ends")
            broker.process.kill()

    def _replace(self, broker: SimulatedBroker) -> None:
        """Kill a process, and start another one unless there is one."""
        self._kill(broker)
        self._start_later(broker.broker_id)

    def _start_later(self, broker_id: int) -> None:
        delay_ms = self.rng.choice((50, 500, 3_000)) if self._is_faulty else 50
        self.time.after(delay_ms, lambda: self._start_unless_running(broker_id))

    def _start_unless_running(self, broker_id: int) -> None:
        if broker_id == self.lost_id and self._is_lost:
            return
        if all(each.broker_id != broker_id for each in self.brokers):
            self.start(broker_id)

    # ---- faults
    # ---------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if not self._is_faulty:
            return
        rng, scenario = self.rng, self._scenario
        self.time.after(rng.randrange(100, scenario.interval_ms), self._trouble)
        [kind] = rng.choices([*scenario.faults], [*scenario.faults.values()])
        if kind == "store":
            self._trouble_store()
        elif self.brokers:
            self._trouble_broker(kind, self._victim())

    def _victim(self) -> SimulatedBroker:
        """Return any broker, or the controller."""
        if self.rng.random() < self._scenario.controller_rate:
            for broker in self.brokers:
                if broker.image.is_controller(broker.broker_id, broker.membership.epoch):
                    return broker
        return self.rng.choice(self.brokers)

    def _trouble_store(self) -> None:
        rng, store = self.rng, self.store
        if rng.random() < 0.3:
            store.compacted = store.data.revision
            self.note(f"--- compacted up to {store.compacted}")
        elif store.is_available:
            duration_ms = rng.choice((500, 2_000, 4_500))
            self.note(f"--- the store is unavailable for {duration_ms} ms")
            store.set_available(is_available=False)
            self.time.after(duration_ms, self._repair_store)

    def _repair_store(self) -> None:
        if not self.store.is_available:
            self.store.set_available(is_available=True)

    def _trouble_broker(self, kind: str, broker: SimulatedBroker) -> None:
        rng = self.rng
        self.note(f"--- {kind}: {broker.name}")
        if kind == "kill":
            self._replace(broker)
        elif kind == "empty" and not self.settings.is_shared:
            self._empty(broker.broker_id)
        elif kind == "stop" and broker.process.is_running:
            broker.process.stop()
            duration_ms = rng.choice((300, 2_800, 3_500, 6_000))
            self.time.after(duration_ms, lambda: self._resume(broker))
        elif kind == "drain":
            broker.drain()
        elif (
            kind == "second process"
            and sum(each.broker_id == broker.broker_id for each in self.brokers) == 1
        ):
            self.start(broker.broker_id)
            self.time.after(rng.randrange(5_000), lambda: self._replace(broker))

    def _empty(self, broker_id: int) -> None:
        """Let a broker lose its disk, and start again."""
        for broker in list(self.brokers):
            if broker.broker_id == broker_id:
                self._kill(broker)
        self.disks[broker_id] = Disk()
        self.audit.emptied.add(broker_id)
        delay_ms = self.rng.choice((5, 30, 300, 3_000))
        self.time.after(delay_ms, lambda: self._start_unless_running(broker_id))
        if self.rng.random() < 0.3:
            # It fails again soon, and the controller hears of that registration after its end.
            self._stop_controller(broker_id)
            fails_ms = delay_ms + self.rng.randrange(400)
            self.time.after(fails_ms, lambda: self._restart(broker_id, (10, 300, 1_500)))

    def _stop_controller(self, other_than: int) -> None:
        for broker in self.brokers:
            is_controller = broker.image.is_controller(broker.broker_id, broker.membership.epoch)
            if is_controller and broker.broker_id != other_than and broker.process.is_running:
                self.note(f"--- stop: {broker.name}, the controller")
                broker.process.stop()
                self.time.after(1_000, partial(self._resume, broker))

    def _joins(self, broker_id: int) -> None:
        """Let a follower fail while it is being added to an ISR, sometimes."""
        if not self._is_faulty:
            return
        chance = self.rng.random()
        rate = 0.04 if self.store.frees_at_death else 0.01
        if chance < or_drawn(self._scenario.joiner_loss_rate, rate):
            self.note(f"--- empty: broker {broker_id}, which joins an ISR")
            self.time.after(self.rng.randrange(6), lambda: self._empty(broker_id))
        elif chance > 1 - self._scenario.joiner_slow_rate:
            for broker in self.brokers:
                if broker.broker_id == broker_id:
                    broker.replication.be_slow(self.rng.choice((300, 3_000)))

    def _state_changed(self, state: PartitionState) -> None:
        """Let the successor of a leader fail, sometimes, before it is the leader."""
        if not self._is_faulty or state.successor == NO_LEADER:
            return
        # A broker whose lease ends with it is gone before the leader can hand over to it.
        if self.rng.random() < (0.25 if self.store.frees_at_death else 0.05):
            self.time.after(self.rng.randrange(40), lambda: self._restart(state.successor))

    def _restart(self, broker_id: int, delays_ms: Sequence[int] = (10, 30, 300)) -> None:
        for broker in list(self.brokers):
            if broker.broker_id == broker_id:
                self.note(f"--- fails soon: {broker.name}")
                self._kill(broker)
        if broker_id == self.lost_id:
            self._is_lost = True
        delay_ms = self.rng.choice(delays_ms)
        self.time.after(delay_ms, lambda: self._start_unless_running(broker_id))

    def _resume(self, broker: SimulatedBroker) -> None:
        if broker.process.is_alive and not broker.process.is_running:
            self.note(f"{broker.name} runs again")
            broker.process.resume()

    # ---- clients
    # ---------------------------------------------------------------------------------------------

    def _client(self) -> None:
        """Create, enlarge or delete a topic through any broker, from time to time."""
        if not self._is_faulty:
            return
        rng = self.rng
        self.time.after(rng.randrange(50, 1_500), self._client)
        usable = [each for each in self.brokers if each.is_usable]
        if not usable:
            return
        broker = rng.choice(usable)
        named = list(broker.image.topic_ids)
        if len(named) < 2 or (len(named) < TOPICS_MAX and rng.random() < 0.4):
            self._create(broker)
            return
        name = rng.choice(named)
        kind = rng.random()
        eligible = self._eligible(broker) if rng.random() < self._scenario.lower_rate else ""
        if eligible:
            self._configure(broker, eligible, 1)
        elif kind < 0.25:
            self._enlarge(broker, name)
        elif kind < 0.4:
            self._delete(broker, name)
        elif kind < 0.55:
            self._configure(broker, name, rng.randint(1, 3))
        elif not self.settings.is_shared:
            self._reassign(broker, name)
            if rng.random() < 0.3:
                self._elect(broker)

    def _produce(self) -> None:
        """Send a record to any broker, often."""
        if not self._is_faulty:
            return
        self.time.after(self.rng.randrange(20, 120), self._produce)
        self._records += 1
        if self.brokers and not self.settings.is_shared:
            self.rng.choice(self.brokers).produce(self._records)

    def _configure(self, broker: SimulatedBroker, name: str, min_isr: int) -> None:
        self.note(f"{broker.name} sets min.insync.replicas of {name}: {min_isr}")
        self.audit.configured.add(name)
        config = config_records.operation(
            metadata.topic_config_key(name), {"min.insync.replicas": str(min_isr)}
        )
        self.store.transact(broker.process, Transaction([], [config]), lambda _: None)

    @staticmethod
    def _eligible(broker: SimulatedBroker) -> str:
        """Return the name of a topic with an ELR, "" if there is none."""
        image = broker.image
        for topic_id, states in image.stored.items():
            if topic_id in image.topics and any(each.state.elr for each in states.values()):
                return image.topics[topic_id].name
        return ""

    def _reassign(self, broker: SimulatedBroker, name: str) -> None:
        rng, image = self.rng, broker.image
        topic = image.topic(name)
        assert topic is not None
        item = topic.record.topic_id, rng.randrange(topic.record.partitions)
        target = rng.sample(range(1, self.size + 1), rng.randint(1, self.size))
        if rng.random() < 0.3:
            self.note(f"{broker.name} cancels the reassignment of {name} {item[1]}")
            work = broker.changes.reassign({item: None})
        else:
            self.note(f"{broker.name} reassigns {name} {item[1]}: {target}")
            work = broker.changes.reassign({item: target})
        Task(work, self.time.answer())

    def _elect(self, broker: SimulatedBroker) -> None:
        """Elect any replica of a partition without a leader, as an operator who accepts a loss."""
        image = broker.image
        for topic_id, topic in image.topics.items():
            for partition in range(topic.record.partitions):
                found = eligibility.known(image, topic_id, partition)
                if found is not None and not election.has_leader(found):
                    item = topic_id, partition
                    self.note(f"{broker.name} elects any replica of {topic.name} {partition}")
                    self.audit.forced.add(item)
                    Task(broker.changes.elect_unclean([item]), self.time.answer())
                    return

    def _create(self, broker: SimulatedBroker) -> None:
        rng, image = self.rng, broker.image
        factor = 1 if self.settings.is_shared else rng.randint(1, self.size)
        self._ids += 1
        self._topics += rng.choice((0, 1, 1, 1))  # the same name twice
        name, topic_id = f"t{self._topics % NAMES}", b"topic %010d" % self._ids
        if name in image.topic_ids:
            return
        try:
            placed = complete(placement.place(image, rng.randint(1, 4), factor, rng.randrange(100)))
            transaction = topics.creation(image, name, topic_id, placed)
        except RequestError:
            return
        self.note(f"{broker.name} creates {name}: {placed}")

        def created(outcome: Outcome) -> None:
            if isinstance(outcome, int):
                self.audit.created[topic_id] = len(placed)

        self.store.transact(broker.process, transaction, created)

    def _enlarge(self, broker: SimulatedBroker, name: str) -> None:
        rng, image = self.rng, broker.image
        topic = image.topic(name)
        assert topic is not None
        factor = len(topic.record.replicas[0])
        try:
            placed = complete(placement.place(image, rng.randint(1, 2), factor, 0))
        except RequestError:
            return
        transaction = topics.enlargement(image, topic, placed)
        self.note(f"{broker.name} enlarges {name}: {placed}")

        def enlarged(outcome: Outcome) -> None:
            if isinstance(outcome, int):
                partitions = topic.record.partitions + len(placed)
                topic_id = topic.record.topic_id
                known = self.audit.created.get(topic_id, 0)
                self.audit.created[topic_id] = max(partitions, known)

        self.store.transact(broker.process, transaction, enlarged)

    def _delete(self, broker: SimulatedBroker, name: str) -> None:
        topic = broker.image.topic(name)
        assert topic is not None
        self.note(f"{broker.name} deletes {name}")
        self.audit.deleting.add(topic.record.topic_id)
        deletion = complete(topics.deletion(broker.image, topic, WALL_MS))
        self.store.transact(broker.process, deletion, lambda _: None)


def run(seed: int, scenario: Scenario = ANY) -> ClusterSimulation:
    """Run a seed to its end.

    Raises:
        Violation: with the seed and the last events.
    """
    sim = ClusterSimulation(seed, scenario)
    try:
        sim.run()
    except Violation as violation:
        raise Violation(
            f"{violation}\nseed {seed}, the last events:\n" + "\n".join(sim.events)
        ) from violation
    return sim


def run_all(seeds: Iterable[int], scenario: Scenario = ANY) -> None:
    """Run many seeds."""
    for seed in seeds:
        run(seed, scenario)
