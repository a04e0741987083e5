"""One broker process with the state machines of core/cluster, and the driver that they need.

membership   one action at a time; the lease is renewed every third of its time
image        a scan, then a watch; both begin anew when the store has been compacted
controller   while the image says that this incarnation is the controller
hand-overs   since the broker has registered
partitions   opened when the image says that this incarnation serves them, some ms later; closed
when it says so no longer, or after a stop, and at the end of the lease
replicas     `replication.py`, unless all brokers share one data directory
operators    `changes.py`; the controller asks replicas as they do, before an unclean election
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from broker.core.cluster import topics
from broker.core.cluster.controller import Controller, ControllerSettings, claim
from broker.core.cluster.handover import HandOver, could_be_led_by_others
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.membership import (
    AcquireLease,
    Commit,
    LookUp,
    Membership,
    Phase,
    ReleaseLease,
    Wait,
)
from broker.core.cluster.records import (
    NO_EPOCH,
    BrokerState,
    PartitionState,
    Registration,
)
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.cluster.writes import Item, Write
from broker.core.replica_ends import in_order
from broker.storage.metadata import Changes, KeyValue
from tests.simulation.cluster.audit import Audit
from tests.simulation.cluster.changes import Ends, EndsOf, partition_changes
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.replicas import Disk
from tests.simulation.cluster.replication import Replication
from tests.simulation.cluster.store import LEASE_MS, Failure, Outcome, SimulatedStore
from tests.simulation.virtual_time import Task

MARGIN_SECONDS = 0.5
RETRY_MS = 300
DRAIN_MS = 10_000
WALL_MS = 1_700_000_000_000


class SimulatedBroker:
    """A process of one broker id, from its start to its end."""

    def __init__(
        self,
        rng: Random,
        process: Process,
        store: SimulatedStore,
        audit: Audit,
        settings: ControllerSettings,
        registration: Registration,
        name: tuple[int, int],
        disk: Disk,
    ) -> None:
        """Begin; `name`: the broker id, and a number that no other process has."""
        self.broker_id = name[0]
        self.name = f"broker {name[0]}, process {name[1]}"
        self.process = process
        self.image = ClusterImage()
        self.membership = Membership(
            self.broker_id, registration, f"process-{name[1]}", MARGIN_SECONDS
        )
        self.disk = disk
        self._topic_settings = TopicSettings(self.image, lambda: settings.defaults)
        self.replication = Replication(
            rng, self, disk, self._topic_settings, self._write, audit.acknowledged
        )
        self._ends = Ends(process, self.image, self.ask_ends)
        self.changes = partition_changes(
            process, store, self.broker_id, self._topic_settings, self._ends, self.image
        )
        self._rng = rng
        self._store = store
        self._audit = audit
        self._settings = settings
        self._lease_id = 0
        self._served: dict[Item, tuple[int, int]] = {}  # broker epoch, leader epoch
        self._opening: set[Item] = set()
        self._controller: Controller | None = None
        self._hand_over: HandOver | None = None
        self._is_claiming = False
        self._is_acting = False
        self._is_fetching = False
        self._is_watching = False
        self._confirming: set[bytes] = set()

    def start(self) -> None:
        self.process.at_death(self._unwatch)
        self._scan()
        self._act()
        self._tick()
        if not self._settings.is_shared:
            self.replication.start()

    # ---- what others see
    # ---------------------------------------------------------------------------------------------

    def serves(self, item: Item) -> bool:
        """Return whether it believes that it serves a partition, also while it is stopped."""
        served = self._served.get(item)
        return (
            served is not None
            and self.process.is_alive
            and served[0] == self.membership.epoch
            and self.membership.may_serve(self.process.now())
        )

    @property
    def is_usable(self) -> bool:
        """Whether clients can use it."""
        return self.process.is_running and self.membership.epoch != NO_EPOCH

    @property
    def has_left(self) -> bool:
        return self.membership.phase is Phase.LEFT

    def drain(self) -> None:
        """Stop in an orderly way, within a time."""
        self.process.run(self.membership.drain)
        self.process.run(self._act)
        self.process.after(DRAIN_MS, self._leave)

    # ---- membership
    # ---------------------------------------------------------------------------------------------

    def _act(self) -> None:
        """Execute the next action of the membership, if none is being executed."""
        if self._is_acting:
            return
        member, process, store = self.membership, self.process, self._store
        action = member.action(process.now())
        self._is_acting = not isinstance(action, Wait)
        match action:
            case AcquireLease():
                begun = process.now()
                store.grant(process, lambda granted: self._granted(granted, begun))
            case Commit(_, transaction):
                store.transact(
                    process, transaction, lambda outcome: self._committed(action, outcome)
                )
            case LookUp(_, key):
                store.get(process, key, lambda entry: self._found(action, entry))
            case ReleaseLease(lease_id):
                self._served.clear()
                store.revoke(process, lease_id, lambda _: self._released(lease_id))
            case Wait(until):
                if until is not None:
                    delay_ms = max(int(1_000 * (until - process.now())), 1)
                    process.after(delay_ms, self._act)

    def _acted(self) -> None:
        self._is_acting = False
        self._membership_changed()
        self._act()

    def _granted(self, granted: int | Failure, begun: float) -> None:
        if isinstance(granted, Failure):
            self.process.after(RETRY_MS, self._acted)
            return
        self._lease_id = granted
        self.membership.lease_granted(granted, begun + LEASE_MS / 1_000)
        self.process.after(LEASE_MS // 3, lambda: self._renew(granted))
        self._acted()

    def _renew(self, lease_id: int) -> None:
        member, process = self.membership, self.process
        if lease_id != self._lease_id:
            return
        begun = process.now()
        if begun >= member.fenced_from + MARGIN_SECONDS:
            self._lost(lease_id)
            return

        def done(is_held: bool) -> None:
            if not is_held:
                self._lost(lease_id)
            elif process.now() < member.fenced_from + MARGIN_SECONDS:
                member.lease_renewed(lease_id, begun + LEASE_MS / 1_000)
                self._check_served(self._served)

        self._store.renew(process, lease_id, done)
        process.after(LEASE_MS // 3, lambda: self._renew(lease_id))

    def _lost(self, lease_id: int) -> None:
        if lease_id == self._lease_id:
            self._lease_id = 0
            self.membership.lease_lost(lease_id)
            self._membership_changed()
            self._act()

    def _released(self, lease_id: int) -> None:
        self._lease_id = 0
        self.membership.lease_lost(lease_id)
        self._acted()

    def _committed(self, commit: Commit, outcome: Outcome) -> None:
        if isinstance(outcome, Failure):
            self.membership.unknown(commit.lease_id, self.process.now())
        elif outcome is None:
            self.membership.refused(commit, self.process.now())
        else:
            self.membership.applied(commit, outcome)
        self._acted()

    def _found(self, look_up: LookUp, entry: KeyValue | Failure | None) -> None:
        if isinstance(entry, Failure):
            self.membership.unknown(look_up.lease_id, self.process.now())
        else:
            self.membership.found(look_up, entry, self.process.now())
        self._acted()

    def _membership_changed(self) -> None:
        """Begin and end what belongs to one incarnation."""
        epoch = self.membership.epoch
        if epoch == NO_EPOCH:
            self._served.clear()
            self._hand_over = self._controller = None
            self.replication.begin(NO_EPOCH)
        elif self._hand_over is None:
            if self.disk.intact_since != self.membership.intact_since:
                self.process.after(self._rng.choice((1, 30)), self._keep_intact_since)
            if not self._settings.is_shared:
                self.replication.begin(epoch)
            self._hand_over = HandOver(
                self.image,
                (self.broker_id, epoch),
                lambda *item: item in self._served,
                is_shared=self._settings.is_shared,
            )
            self._update_all()
            self._react()

    def _keep_intact_since(self) -> None:
        self.disk.intact_since = self.membership.intact_since

    def _leave(self) -> None:
        self._served.clear()
        self.membership.leave()
        self._membership_changed()
        self._act()

    # ---- the image
    # ---------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        def scanned(found: tuple[list[KeyValue], int] | Failure) -> None:
            if isinstance(found, Failure):
                self.process.after(RETRY_MS, self._scan)
                return
            self._image_changed(complete(self.image.load(*found)))
            self._is_fetching = False
            if not self._is_watching:
                self._is_watching = True
                self._store.watch(self._wake)
            self._wake()

        self._is_fetching = True
        self._store.scan(self.process, scanned)

    def _wake(self) -> None:
        """Fetch changes after a while, unless that is under way."""
        if not self._is_fetching and self._store.data.revision > self.image.revision:
            self._is_fetching = True
            self.process.after(self._store.watch_delay_ms(), self._fetch)

    def _fetch(self) -> None:
        self._is_fetching = False
        if not self._store.is_available:
            return  # the store wakes its watchers
        changes = self._store.changes(self.image.revision)
        if changes is None:
            self._scan()
        elif changes:
            events = [event for each in changes for event in each.events]
            self._image_changed(complete(self.image.apply(Changes(changes[-1].revision, events))))
            self._wake()

    def _unwatch(self) -> None:
        if self._is_watching:
            self._store.unwatch(self._wake)

    def _image_changed(self, delta: Delta) -> None:
        if delta.is_controller_changed:
            self._controller = None
        for machine in (self._controller, self._hand_over):
            if machine is not None:
                machine.image_changed(delta)
        self.replication.image_changed(delta)
        for item in delta.partitions:
            self._update(item)
        for topic_id in delta.topics:
            for partition in range(self.image.topics[topic_id].record.partitions):
                self._update((topic_id, partition))
        for topic_id, topic in delta.deleted_topics.items():
            for partition in range(topic.record.partitions):
                self._update((topic_id, partition))
        if delta.brokers and self._served and self._rng.random() < 0.5:
            remove = partial(self.replication.remove_failed, self._rng.choice([*self._served]))
            self.process.after(self._rng.randrange(12), remove)
        self._confirm_deletions()
        self._react()

    def _react(self) -> None:
        """Let the machines work after a change."""
        self._claim()
        for machine in (self._controller, self._hand_over):
            if machine is not None:
                self._work(machine)
        self.replication.work()
        if self.membership.phase is Phase.DRAINING:
            me = self.image.brokers.get(self.broker_id)
            if me is not None and me.is_draining and not self._could_be_replaced():
                self._leave()

    def _could_be_replaced(self) -> bool:
        """Return whether it leads a partition that another broker could lead."""
        image, own_id = self.image, self.broker_id
        if self._settings.is_shared:
            return image.counts.leaders.get(own_id, 0) > 0
        return complete(could_be_led_by_others(image, own_id))

    def _tick(self) -> None:
        now_ms = self.process.now_ms()
        if self._controller is not None and self._controller.due_ms <= now_ms:
            self._controller.tick(now_ms, WALL_MS)
        if self._hand_over is not None and (self._hand_over.due_ms or now_ms + 1) <= now_ms:
            self._hand_over.tick(now_ms)
        self.replication.tick()
        self._confirm_deletions()
        self._react()
        self.process.after(200, self._tick)

    # ---- transactions
    # ---------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        epoch, image = self.membership.epoch, self.image
        if self._controller is None and epoch and image.is_controller(self.broker_id, epoch):
            self._controller = Controller(
                *(image, self._settings, self.process.now_ms(), WALL_MS),
                asks_for_ends=not self._settings.is_shared,
            )
        if self._is_claiming or not epoch:
            return
        transaction = claim(image, self.broker_id, epoch, self._lease_id)
        if transaction is not None:
            self._is_claiming = True

            def claimed(_: Outcome) -> None:
                self.process.after(RETRY_MS, again)

            def again() -> None:
                self._is_claiming = False

            self._store.transact(self.process, transaction, claimed)

    def _work(self, machine: Controller | HandOver) -> None:
        while machine.has_work:
            write = machine.work()
            if write is not None:
                self._write(machine, write)
        if isinstance(machine, HandOver):
            for item in machine.take_stops():
                delay_ms = self._rng.randrange(self._rng.choice((20, 300)))
                self.process.after(delay_ms, partial(self._stop, item))
        else:
            asked = machine.take_asked()
            if asked:
                Task(self._tell_ends(machine, asked), self.process.time.answer())

    async def _tell_ends(self, controller: Controller, items: Sequence[Item]) -> None:
        """Tell the controller how much the replicas of partitions have."""
        image = self.image
        epochs = {each: broker.epoch for each, broker in image.brokers.items()}
        found = await self._ends.of(items)
        self._audit.told_ends(controller.epoch, found, epochs)
        states = {item: image.state(*item) for item in items}
        controller.answered(
            {
                item: in_order(state.replicas if state else (), found[item])
                for item, state in states.items()
            }
        )
        if controller is self._controller:
            self._work(controller)

    def ask_ends(
        self, broker_id: int, items: Sequence[Item], told: Callable[[EndsOf], None]
    ) -> None:
        """Ask a broker how much it has; a process that is stopped does not answer."""
        self.replication.ask_ends(broker_id, items, told)

    def _write(self, machine: Controller | HandOver | IsrChanges, write: Write) -> None:
        def done(outcome: Outcome) -> None:
            if isinstance(outcome, Failure):
                machine.unknown(write, self.process.now_ms())
            elif outcome is None:
                machine.refused(write, self.process.now_ms())
            else:
                machine.applied(write, outcome)
            if machine is self.replication.machine:
                self.replication.work()
            elif machine in (self._controller, self._hand_over):
                self._work(machine)

        epoch = machine.epoch if isinstance(machine, Controller) else 0
        self._store.transact(self.process, write.transaction, done, epoch)

    def _confirm_deletions(self) -> None:
        for topic_id in self.image.deleted:
            confirmation = topics.confirmation(self.image, topic_id, self.broker_id)
            if confirmation is not None and topic_id not in self._confirming:
                self._confirming.add(topic_id)
                self._store.transact(
                    self.process,
                    confirmation,
                    partial(self._confirmed, topic_id),
                )

    def _confirmed(self, topic_id: bytes, _: Outcome) -> None:
        self._confirming.discard(topic_id)

    # ---- partitions
    # ---------------------------------------------------------------------------------------------

    def _state(self, item: Item) -> PartitionState | None:
        """Return a partition's state, if this incarnation is to serve it."""
        state = self.image.state(*item)
        epoch = self.membership.epoch
        if state is None or not epoch or not state.is_served_by(self.broker_id, epoch):
            return None
        return state

    def _update_all(self) -> None:
        for topic_id, topic in self.image.topics.items():
            for partition in range(topic.record.partitions):
                self._update((topic_id, partition))

    def _update(self, item: Item) -> None:
        """Open or close a partition after a change of its state."""
        state = self._state(item)
        if state is not None:
            if self._served.get(item, (0, state.leader_epoch))[1] != state.leader_epoch:
                self._close(item)  # it was led by another broker meanwhile
            if item not in self._served and item not in self._opening:
                self._opening.add(item)
                self.process.after(self._rng.randrange(10), lambda: self._open(item))
            return
        state = self.image.state(*item)
        epoch = self.membership.epoch
        if state is None or (state.leader, state.broker_epoch) != (self.broker_id, epoch):
            self._close(item)
        # Else it has a successor, and is to be stopped.

    def _open(self, item: Item) -> None:
        self._opening.discard(item)
        state = self._state(item)
        if state is not None:
            self._served[item] = state.broker_epoch, state.leader_epoch
            self._check_served([item])
            if not self._settings.is_shared:
                self.replication.opened(item, state.leader_epoch)

    def _close(self, item: Item) -> None:
        self._served.pop(item, None)
        self.replication.closed(item)

    def _check_served(self, items: Iterable[Item]) -> None:
        """Let the audit check what is served from now on; a fenced broker serves nothing."""
        for item in items:
            if self.serves(item):
                self._audit.began_to_serve(self, item, self._served[item][1])

    def _stop(self, item: Item) -> None:
        if self._state(item) is not None:
            return  # it has no successor any more
        self._close(item)
        if self._hand_over is not None:
            self._hand_over.stopped(item)
            self._work(self._hand_over)

    def produce(self, record: int) -> None:
        """Accept a record for one of the partitions that are served, as a client's."""
        served = [item for item in self._served if self.serves(item)]
        if served and self.process.is_running:
            self.replication.produce(self._rng.choice(served), record)


def registration(broker_id: int, *, host: str, intact_since: int) -> Registration:
    """Return the registration of a broker; one of two racks has two of three."""
    return Registration("", (), f"rack{broker_id % 2}", host, BrokerState.RUNNING, intact_since)
