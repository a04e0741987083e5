"""What must hold for a cluster at every moment, and what once it has settled.

at every change of the store
a state changes by one partition epoch, and by one leader epoch if and only if another
broker, or another incarnation of it, leads, or replicas are removed
a new leader was in the ISR or ELR, unless all brokers share one data directory, or an unclean
election is allowed or wanted by an operator; then nobody that has told to have more is passed
over, and only what the new leader lacks is lost
whoever leaves an ISR that is too small then is in the ELR
nobody serves a partition while its leader changes; a leader that is registered is replaced
by nobody but itself, with its successor
a controller that is not in office changes nothing
an enlargement changes nothing for the partitions that a topic had
a deleted topic is not forgotten while a broker may have its folders
no broker begins to count for a disk that was lost before, if only those that are not registered
lose theirs
at every moment
at most one broker believes that it serves a partition, by its own clock
what is acknowledged begins with what was acknowledged before
the disk of a new leader, and of each member of the ISR and the ELR, has every acknowledged
record, if it is the disk with which the broker became a member
the leader epochs with which a partition is served rise
once it has settled
what was acknowledged exists
a partition with a live member in its ISR or ELR is served by its leader, which is live; so is
one whose replicas are all there, if none of them was ever emptied
all live replicas are in the ISR, the ELR has nobody unless the ISR is too small, and no
reassignment is left that could be completed
everything is acknowledged, unless the ISR is too small
internal topics have grown
every image is the store's content
no states of deleted topics are left, and no deleted topic that all brokers have confirmed
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from broker.core.cluster import records
from broker.core.cluster.controller import ControllerSettings
from broker.core.cluster.image import ClusterImage, Delta, Topic
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.replica_ends import End
from broker.storage import metadata
from broker.storage.metadata import Changes, KeyValue
from tests.simulation.cluster.replicas import Disk, Entry, Leading, common
from tests.simulation.cluster.replication import Replication
from tests.simulation.violation import Violation

Item = tuple[bytes, int]


class Server(Protocol):
    """A broker as the audit sees it."""

    name: str
    image: ClusterImage

    def serves(self, item: Item) -> bool:
        """Return whether it believes at this moment that it serves a partition."""

    @property
    def replication(self) -> Replication:
        """Return its replicas."""


class Claim(NamedTuple):
    """What a broker said of its disk when it registered."""

    disk: Disk
    intact_since: int


class Audit:
    """The truth about the cluster, and what was promised."""

    def __init__(
        self,
        servers: Callable[[], Iterable[Server]],
        disks: Mapping[int, Disk],
        settings: ControllerSettings,
    ) -> None:
        self.image = ClusterImage()
        self.created: dict[bytes, int] = {}  # acknowledged topics: their number of partitions
        self.deleting: set[bytes] = set()  # topics that somebody wants to delete
        self.state_changed: Callable[[PartitionState], None] = lambda _: None
        self._servers = servers
        self._settings = settings
        self._topic_settings = TopicSettings(self.image, lambda: settings.defaults)
        self._is_shared = settings.is_shared
        self._disks = disks
        self._registered: dict[int, Claim] = {}  # by each broker's last registration that counts
        self._epochs: dict[int, int] = {}  # of those
        # Whether a disk is lost only while its broker is not registered.
        self.is_lost_unregistered = False
        self._claims: dict[Item, dict[int, Claim]] = {}  # with which it became a member
        self._acknowledged: dict[Item, list[Entry]] = {}
        self.configured: set[str] = set()  # topics whose min.insync.replicas somebody has changed
        self.emptied: set[int] = set()  # brokers that may have lost a disk at any time
        self.processes: dict[str, Disk] = {}  # on which disk each runs, or did
        self.failed: set[tuple[Item, int]] = set()  # brokers whose log of it has failed at any time
        self.forced: set[Item] = set()  # an operator may have asked for an unclean election
        self.unclean_count = 0  # elections of who may lack records
        self._served: dict[Item, tuple[int, str]] = {}  # the last leader epoch, and by whom
        self._controller_epoch = 0  # of who has made the last change; 0: no controller
        # What replicas have told, by broker and its epoch, before elections of a controller.
        self._told: dict[tuple[int, Item], list[dict[tuple[int, int], End]]] = {}

    # ---- the store
    # ---------------------------------------------------------------------------------------------

    def committed(self, changes: Changes, controller_epoch: int) -> None:
        """Check the next change of the store."""
        image = self.image
        in_office = image.controller
        if controller_epoch and (in_office is None or in_office.epoch != controller_epoch):
            raise Violation(f"a controller of epoch {controller_epoch} is not in office")
        self._controller_epoch = controller_epoch
        topics = [*self._changed_topics(changes)]
        before = {item: image.state(*item) for item in self._changed_states(changes, topics)}
        for event in changes.events:
            if event.key.startswith(metadata.DELETED_TOPICS) and event.entry is None:
                self._check_forgotten(records.parse_deleted_key(event.key))
        registered = dict(image.brokers)
        delta = complete(image.apply(changes))
        self._note_disks(delta)
        for item, old in before.items():
            new = image.state(*item)
            if old is None or new is None or old == new:
                continue
            if topics:
                raise Violation(f"an enlargement changes {item}: {old} {new}")
            leader = registered.get(old.leader)
            is_live = leader is not None and leader.epoch == old.broker_epoch
            self._check_change(item, old, new, is_live=is_live)
            if not self._is_shared:
                self._check_members(item, old, new)
            self.state_changed(new)

    def _changed_topics(self, changes: Changes) -> Iterator[Topic]:
        for event in changes.events:
            if event.key.startswith(metadata.TOPICS):
                topic = self.image.topic(records.parse_topic_key(event.key))
                if topic is not None:
                    yield topic

    @staticmethod
    def _changed_states(changes: Changes, topics: list[Topic]) -> Iterator[Item]:
        for event in changes.events:
            if event.key.startswith(records.PARTITIONS):
                yield records.parse_partition_key(event.key)
        for topic in topics:
            for partition in range(topic.record.partitions):
                yield topic.record.topic_id, partition

    def _check_change(
        self, item: Item, old: PartitionState, new: PartitionState, *, is_live: bool
    ) -> None:
        shown = f"{item}: {old} {new}"
        is_same = (old.leader, old.broker_epoch) == (new.leader, new.broker_epoch)
        if new.partition_epoch != old.partition_epoch + 1:
            raise Violation(f"the partition epoch is wrong, {shown}")
        is_begun = not is_same or not set(old.replicas) <= set(new.replicas)
        if new.leader_epoch != old.leader_epoch + is_begun:
            raise Violation(f"the leader epoch is wrong, {shown}")
        if is_same:
            return
        serving = [each.name for each in self._servers() if each.serves(item)]
        if serving:
            raise Violation(f"{serving} serve while the leader changes, {shown}")
        if is_live and new.leader != old.successor and (item, old.leader) not in self.failed:
            raise Violation(f"a live leader was replaced, {shown}")

    # ---- records
    # ---------------------------------------------------------------------------------------------

    def acknowledged(self, item: Item, leading: Leading) -> None:
        """Note what a leader has acknowledged now."""
        if not leading.replica.has(self._acknowledged.get(item, [])):
            raise Violation(f"the leader of {item} lacks acknowledged records")
        self._acknowledged[item] = leading.replica.entries[: leading.watermark]
        state = self.image.state(*item)
        if state is not None:
            self._check_all_complete(item, state)

    def _note_disks(self, delta: Delta) -> None:
        image = self.image
        for broker_id in delta.brokers & image.brokers.keys():
            broker = image.brokers[broker_id]
            if broker.epoch == self._epochs.get(broker_id):
                continue
            if broker_id in self._registered and broker.intact_since == broker.epoch:
                self.emptied.add(broker_id)
            # Its process may have been killed, and the disk lost, before this arrived here.
            process, _, _ = broker.registration.incarnation.rpartition(".")
            claim = Claim(self.processes[process], broker.intact_since)
            if self.is_lost_unregistered and claim.disk is not self._disks[broker_id]:
                raise Violation(f"broker {broker_id} counts, and has lost its disk before")
            self._registered[broker_id], self._epochs[broker_id] = claim, broker.epoch
        for topic_id in delta.topics:
            self._place(topic_id)

    def _place(self, topic_id: bytes) -> None:
        """Note with which disks brokers become members of a new topic or partition."""
        for partition in range(self.image.topics[topic_id].record.partitions):
            item = (topic_id, partition)
            state = self.image.state(*item)
            if state is not None and item not in self._claims:
                self._claims[item] = {
                    each: self._registered[each] for each in state.isr if each in self._registered
                }

    def _check_members(self, item: Item, old: PartitionState, new: PartitionState) -> None:
        claims, members = self._claims[item], old.isr + old.elr
        copies = {*old.isr, *old.elr, *(set(old.replicas) - set(old.adding))}
        if len(copies) == 1 and copies.issubset(self.image.brokers):
            self._trust(item, *copies)  # no other broker has had anything
        elected, is_clean = (new.leader, new.broker_epoch), True
        if new.leader != NO_LEADER and elected != (old.leader, old.broker_epoch):
            is_clean = claims.get(new.leader) == self._registered[new.leader]
            self._check_elected(item, old, new)
        for each in new.isr + new.elr:
            if each not in members or (each in new.isr and each not in old.isr):
                claims[each] = self._registered[each]
        self._check_all_complete(item, new)
        if is_clean:
            self._check_left(item, old, new)

    def _trust(self, item: Item, broker_id: int) -> None:
        """Take what a broker has for everything that was acknowledged."""
        claim, known = self._registered[broker_id], self._acknowledged.get(item, [])
        entries = claim.disk.replica(item).entries
        self._acknowledged[item] = known[: common(known, entries)]
        self._claims[item][broker_id] = claim

    def _check_all_complete(self, item: Item, state: PartitionState) -> None:
        claims = self._claims[item]
        for each in state.isr + state.elr:
            if self._disks[each] is claims[each].disk:
                self._check_complete(item, claims[each].disk, f"{each} is a member: {state}")

    def _check_left(self, item: Item, old: PartitionState, new: PartitionState) -> None:
        """Check who has left an ISR that is too small; both may be led by different brokers."""
        topic = self.image.topics[item[0]]
        min_isr = new.min_isr(self._settings.defaults.min_isr)
        if topic.name in self.configured or len(new.isr) >= min_isr or new.leader == NO_LEADER:
            return
        if new.leader not in old.isr + old.elr or not set(old.replicas) <= set(new.replicas):
            return  # an unclean election, or the end of a reassignment
        for each in old.isr + old.elr:
            is_intact = self._registered[each] == self._claims[item][each]
            is_given_up = (item, each) in self.failed
            if is_intact and not is_given_up and each not in new.isr + new.elr:
                raise Violation(f"{each} belongs into the ELR of {item}: {old} {new}")

    def _check_elected(self, item: Item, old: PartitionState, new: PartitionState) -> None:
        leader, claims = new.leader, self._claims[item]
        claim = self._registered[leader]
        if leader in old.isr + old.elr and claims[leader].disk is claim.disk:
            self._check_complete(item, claim.disk, f"{leader} is elected, {old} {new}")
        elif self._is_unclean_allowed(item):
            if self._controller_epoch:
                self._check_most(item, old, new)
            self.unclean_count += 1
            self._trust(item, leader)
        else:
            raise Violation(f"a leader that may lack records, {item}: {old} {new}")

    def _is_unclean_allowed(self, item: Item) -> bool:
        is_operators = self._controller_epoch == 0 and item in self.forced
        return is_operators or self._settings.defaults.is_unclean_allowed

    def told_ends(
        self,
        controller_epoch: int,
        ends: Mapping[Item, Mapping[int, End]],
        epochs: Mapping[int, int],
    ) -> None:
        """Note what a controller was told; `epochs` are those of the brokers that it asked."""
        for item, of_brokers in ends.items():
            told = {(each, epochs[each]): end for each, end in of_brokers.items()}
            self._told.setdefault((controller_epoch, item), []).append(told)

    def _check_most(self, item: Item, old: PartitionState, new: PartitionState) -> None:
        """Check that no replica that runs has told to have more than who is elected uncleanly."""
        shown = f"{item}: {old} {new}"
        answers = self._told.get((self._controller_epoch, item), [])
        if not answers:
            raise Violation(f"an unclean election without a question, {shown}")
        if all(self._is_passed_over(told, old, new) for told in answers):
            raise Violation(f"somebody with more is passed over, {shown}: {answers}")

    def _is_passed_over(
        self, told: Mapping[tuple[int, int], End], old: PartitionState, new: PartitionState
    ) -> bool:
        brokers = self.image.brokers
        known = [end for (each, _), end in told.items() if each == new.leader]
        return any(
            each in old.replicas
            and each in brokers
            and brokers[each].epoch == epoch
            and not brokers[each].is_draining
            and end > max(known, default=End(-1, -1))
            for (each, epoch), end in told.items()
        )

    def _check_complete(self, item: Item, disk: Disk, what: str) -> None:
        if not disk.replica(item).has(self._acknowledged.get(item, [])):
            raise Violation(f"acknowledged records of {item} are missing where {what}")

    def _check_forgotten(self, topic_id: bytes) -> None:
        stored = self.image.deleted[topic_id]
        if stored.topic.pending:
            raise Violation(f"{stored} is forgotten too early")

    # ---- brokers
    # ---------------------------------------------------------------------------------------------

    def began_to_serve(self, server: Server, item: Item, leader_epoch: int) -> None:
        """Check that nobody else serves a partition, and that nobody has with this epoch."""
        last_epoch, last = self._served.get(item, (-1, ""))
        if leader_epoch < last_epoch or (leader_epoch == last_epoch and last != server.name):
            raise Violation(
                f"{server.name} serves {item} in epoch {leader_epoch}, {last} in {last_epoch}"
            )
        self._served[item] = (leader_epoch, server.name)
        for other in self._servers():
            if other is not server and other.serves(item):
                raise Violation(f"{server.name} and {other.name} serve {item}")

    # ---- the end
    # ---------------------------------------------------------------------------------------------

    def check_settled(self, entries: list[KeyValue], revision: int) -> None:
        """Check what must hold once everything has settled."""
        stored = ClusterImage()
        complete(stored.load(entries, revision))
        for server in self._servers():
            _check_same(server.name, server.image, stored)
        _check_same("the audit", self.image, stored)
        for topic_id, partitions in self.created.items():
            topic = stored.topics.get(topic_id)
            is_kept = topic is not None and topic.record.partitions >= partitions
            if topic_id not in self.deleting and not is_kept:
                raise Violation(f"an acknowledged topic is lost: {topic_id!r}")
        if not stored.topics.keys() >= stored.stored.keys():
            raise Violation("states of deleted topics are left")
        for deleted in stored.deleted.values():
            if not deleted.topic.pending:
                raise Violation(f"{deleted} is not forgotten")
        for topic_id, topic in stored.topics.items():
            for partition in range(topic.record.partitions):
                self._check_led(stored, (topic_id, partition))

    def _check_led(self, stored: ClusterImage, item: Item) -> None:
        state = stored.state(*item)
        assert state is not None
        candidates = set(stored.brokers)
        if not self._is_shared and not self._must_be_led(state, candidates):
            return
        if not candidates:
            return
        leader = stored.brokers.get(state.leader)
        if leader is None or leader.epoch != state.broker_epoch:
            raise Violation(f"no live leader of {item}: {state}")
        if not stored.brokers.keys() >= set(state.isr):
            raise Violation(f"the ISR of {item} has brokers that are gone: {state}")
        serving = [each.name for each in self._servers() if each.serves(item)]
        if len(serving) != 1:
            raise Violation(f"{item} is served by {serving}: {state}")
        if not self._is_shared:
            self._check_replicated(stored, item, state)

    def _must_be_led(self, state: PartitionState, brokers: set[int]) -> bool:
        if brokers.intersection(state.isr + state.elr):
            return True
        if self._settings.defaults.is_unclean_allowed and brokers.intersection(state.replicas):
            return True
        return brokers.issuperset(state.replicas) and self.emptied.isdisjoint(state.replicas)

    def _check_replicated(self, stored: ClusterImage, item: Item, state: PartitionState) -> None:
        live = set(state.replicas).intersection(stored.brokers)
        if set(state.isr) != live:
            raise Violation(f"not all live replicas of {item} are in its ISR: {state}")
        min_isr = state.min_isr(self._topic_settings.topic(item[0]).min_isr)
        is_enough = len(state.isr) >= min_isr
        if is_enough and state.elr:
            raise Violation(f"{item} has an ELR that nobody needs: {state}")
        is_possible = live.issuperset(state.adding) and live.difference(state.removing)
        if (state.adding or state.removing) and is_possible:
            raise Violation(f"the reassignment of {item} is not completed: {state}")
        if is_enough and not any(each.replication.is_replicated(item) for each in self._servers()):
            raise Violation(f"not everything of {item} is acknowledged: {state}")
        wanted = dict(self._settings.internal_factors).get(stored.topics[item[0]].name, 0)
        is_waiting = not live.issuperset(state.adding)  # for a broker that is gone
        if len(state.replicas) < min(wanted, len(stored.brokers)) and not is_waiting:
            raise Violation(f"{item} has not grown: {state}")


def _check_same(name: str, image: ClusterImage, stored: ClusterImage) -> None:
    for part in ("revision", "brokers", "fenced", "controller", "topics", "stored", "deleted"):
        if getattr(image, part) != getattr(stored, part):
            raise Violation(f"the image of {name} differs in its {part}")
    if image.counts.leaders != stored.counts.leaders:
        raise Violation(f"the image of {name} counts differently")
