"""What a broker knows of its cluster: one scan of the metadata store, and the changes after it.

    key                  kept as
    cluster              cluster_id
    changed              changed_revision: the revision at which it was put
    broker/<id>          brokers: those that are registered, in their present incarnation;
                         fenced: those that do not count yet
    controller           controller
    topic/<name>         topics by id, topic_ids by name
    part/<topic id>/<n>  stored: partition states that differ from what the topic's value says
    conf/...             configs: entries as they are
    deleted/<topic id>   deleted
    security/...         security
    any other            not kept

The image is as old as `revision`. Whoever writes guards every key with the revision that the image
has of it, so an old image is never the reason for a wrong change, only for a refused one.

`load` and `apply` run in slices of at most 2 ms and return what has changed. While `load` runs the
image is the previous one; between two slices of `apply` some of the changes have been applied.
When either raises StorageError (a damaged value, or one of a newer version) the image is unusable.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from broker.core.cluster import records
from broker.core.cluster.counts import PartitionCounts
from broker.core.cluster.records import (
    NO_EPOCH,
    NO_LEADER,
    BrokerState,
    ControllerClaim,
    DeletedTopic,
    PartitionState,
    Registration,
    TopicRecord,
)
from broker.core.cluster.security_entries import SecurityEntries
from broker.core.cluster.seen import SeenChanges
from broker.core.cluster.slices import Slices
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP
from broker.storage import metadata
from broker.storage.metadata import Changes, Guard, KeyValue

_CONFIGS = b"conf/"
_PARTITIONS_PER_KEY = 8  # whose work equals that of one key
_Key = TypeVar("_Key", bytes, int)


class LiveBroker(NamedTuple):
    """A registered broker."""

    epoch: int
    mod_revision: int
    registration: Registration

    @property
    def is_draining(self) -> bool:
        """Whether it wants to lead nothing."""
        return self.registration.state is BrokerState.DRAINING

    @property
    def intact_since(self) -> int:
        """The revision since when its directory has everything that it had acknowledged."""
        return self.registration.intact_since or self.epoch


class Controller(NamedTuple):
    """The controller in office."""

    epoch: int
    claim: ControllerClaim


class Topic(NamedTuple):
    """A topic; its partitions' states are in the image."""

    name: str
    mod_revision: int
    record: TopicRecord
    create_revision: int = 0

    def default_state(self, partition: int) -> PartitionState:
        """Return the state of a partition that has never changed."""
        record = self.record
        if not record.replicas:
            return PartitionState(NO_LEADER, 0, NO_EPOCH, (), (), 0)
        replicas = record.replicas[partition]
        leader = replicas[0]
        epoch = record.epochs_of(partition)[leader]
        return PartitionState(leader, 0, epoch, replicas, replicas, 0)

    def default_revision(self, partition: int) -> int:
        """Return a revision as of which all replicas had everything, as of their placement.

        All of them were registered in the incarnations of `epochs_of`, so none of them has lost
        anything between that and the transaction that placed them. An imported topic names none.
        """
        epochs, replicas = self.record.epochs_of(partition), self.record.replicas
        placed = max([epochs.get(each, 0) for each in replicas[partition]]) if replicas else 0
        return placed or self.create_revision


class StoredState(NamedTuple):
    """A partition's state that has a key."""

    mod_revision: int
    state: PartitionState


class StoredDeletedTopic(NamedTuple):
    """A deleted topic whose folders may remain."""

    mod_revision: int
    topic: DeletedTopic


class Delta:
    """What has changed in an image, by the names under which the image has it.

    The dicts without values are sets in the order of the changes.

    Attributes:
        brokers: ids that were registered or unregistered, or whose registration has changed; not
            of those that are fenced.
        is_controller_changed: whether another controller, or none, is in office.
        topics: ids of topics that were created or enlarged.
        deleted_topics: topics that were deleted, by id.
        partitions: topic id and number of those whose stored state has changed.
        deleted: ids whose entry in `deleted` has changed.
        configs: keys of configurations.
    """

    __slots__ = (
        "brokers",
        "configs",
        "deleted",
        "deleted_topics",
        "is_controller_changed",
        "partitions",
        "topics",
    )

    def __init__(self) -> None:
        """Begin without changes."""
        self.brokers: set[int] = set()
        self.is_controller_changed = False
        self.topics: dict[bytes, None] = {}
        self.deleted_topics: dict[bytes, Topic] = {}
        self.partitions: dict[tuple[bytes, int], None] = {}
        self.deleted: dict[bytes, None] = {}
        self.configs: dict[bytes, None] = {}

    @classmethod
    def of_everything(cls, image: "ClusterImage") -> "Slices[Delta]":
        """Return a delta with all that an image has, for when changes were missed."""
        delta = cls()
        delta.brokers.update(image.brokers)
        delta.is_controller_changed = True
        delta.topics = dict.fromkeys(image.topics)
        spent = 0
        for topic_id, states in list(image.stored.items()):
            delta.partitions.update(dict.fromkeys([(topic_id, number) for number in states]))
            spent += len(states)
            if spent >= CLUSTER_PARTITIONS_PER_STEP:
                spent = 0
                yield
        delta.deleted = dict.fromkeys(image.deleted)
        delta.configs = dict.fromkeys(image.configs)
        return delta


class ClusterImage:
    """The state of a cluster at one revision.

    Attributes:
        revision: of the last change that is included; 0 before the first load.
        changed_revision: of the last change of topics, configurations or producer ids; 0: none.
        counts: replicas, preferred and present leaders by broker.
        security: access control lists, users, tokens, quotas; this object is never replaced, and
            tells those who watch it what has changed.
        seen: how often leaders and ISRs have changed; it goes on after another `load`.
    """

    __slots__ = (
        "_counted",
        "_replaced",
        "brokers",
        "changed_revision",
        "cluster_id",
        "configs",
        "controller",
        "counts",
        "deleted",
        "fenced",
        "revision",
        "security",
        "seen",
        "stored",
        "topic_ids",
        "topics",
    )

    def __init__(self) -> None:
        """Begin empty; `load` fills the image."""
        self.revision = 0
        self.changed_revision = 0
        self.cluster_id: str | None = None
        self.brokers: dict[int, LiveBroker] = {}
        self.fenced: dict[int, LiveBroker] = {}
        self.controller: Controller | None = None
        self.topics: dict[bytes, Topic] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.stored: dict[bytes, dict[int, StoredState]] = {}
        self.deleted: dict[bytes, StoredDeletedTopic] = {}
        self.configs: dict[bytes, KeyValue] = {}
        self.counts = PartitionCounts()
        self.security = SecurityEntries()
        self.seen = SeenChanges()
        self._replaced: tuple[dict[bytes, Topic], dict[bytes, dict[int, StoredState]]] = {}, {}
        self._counted = 0  # partitions that were counted, for the length of slices

    # ---- reading
    # ---------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        """Return a topic by its name."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def state(self, topic_id: bytes, partition: int) -> PartitionState | None:
        """Return the state of a partition; None if there is no such partition."""
        topic = self.topics.get(topic_id)
        if topic is None or partition >= topic.record.partitions:
            return None
        states = self.stored.get(topic_id)
        if states is not None and partition in states:
            return states[partition].state
        return topic.default_state(partition)

    def revision_of(self, topic_id: bytes, partition: int) -> int:
        """Return the revision as of which a partition's members have everything; 0: none such."""
        states = self.stored.get(topic_id)
        if states is not None and partition in states:
            return states[partition].mod_revision
        topic = self.topics.get(topic_id)
        return 0 if topic is None else topic.default_revision(partition)

    def guard(self, topic_id: bytes, partition: int) -> Guard:
        """Return the guard that a partition's key is as this image has it."""
        key = records.partition_key(topic_id, partition)
        states = self.stored.get(topic_id)
        if states is None or partition not in states:
            return metadata.Absent(key)
        return metadata.Unchanged(key, states[partition].mod_revision)

    def is_registered(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether this incarnation of a broker is registered, and counts."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def is_fenced(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether this incarnation of a broker is registered, and does not count yet."""
        broker = self.fenced.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def is_controller(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether this incarnation of a broker is the controller in office."""
        in_office = self.controller
        return in_office is not None and in_office.claim == (broker_id, broker_epoch)

    # ---- changing
    # ---------------------------------------------------------------------------------------------

    def load(self, entries: Sequence[KeyValue], revision: int) -> Slices[Delta]:
        """Replace the image by all entries of the store, of one scan at `revision`."""
        fresh = ClusterImage()
        yield from fresh._set_all(((each.key, each) for each in entries), Delta())
        delta = yield from _difference(self, fresh)
        changed = yield from self.security.changed_in(fresh.security)
        replaced = self.topics, self.stored
        for name in self.__slots__:
            if name not in {"security", "seen"}:
                setattr(self, name, getattr(fresh, name))
        self.revision = revision
        self.security.replace(fresh.security)
        self._replaced = replaced
        yield from self.security.tell(changed)
        return delta

    def release(self) -> Slices[None]:
        """Free what the last `load` has replaced: all at once it would take longer than a slice."""
        topics, stored = self._replaced
        replaced: list[dict[Any, Any]] = [topics, *stored.values()]
        released = 0
        for each in replaced:
            while each:
                each.popitem()
                released += 1
                if released % CLUSTER_PARTITIONS_PER_STEP == 0:
                    yield
        self._replaced = {}, {}

    def apply(self, changes: Changes) -> Slices[Delta]:
        """Apply the changes that follow the image's revision."""
        delta = Delta()
        yield from self._set_all(((each.key, each.entry) for each in changes.events), delta)
        self.revision = changes.revision
        return delta

    def _set_all(
        self, entries: Iterable[tuple[bytes, KeyValue | None]], delta: Delta
    ) -> Slices[None]:
        spent = 0  # in partitions
        for key, entry in entries:
            before = self._counted
            yield from self._set(key, entry, delta)
            spent += _PARTITIONS_PER_KEY + (self._counted - before)
            if spent >= CLUSTER_PARTITIONS_PER_STEP:
                spent = 0
                yield

    def _set(self, key: bytes, entry: KeyValue | None, delta: Delta) -> Slices[None]:
        """Change one key; an entry of None was deleted."""
        if key.startswith(records.PARTITIONS):
            self._set_partition(key, entry, delta)
        elif key.startswith(metadata.TOPICS):
            yield from self._set_topic(key, entry, delta)
        elif key.startswith(records.BROKERS):
            self._set_broker(key, entry, delta)
        elif key.startswith(_CONFIGS):
            self._set_config(key, entry, delta)
        elif key.startswith(metadata.DELETED_TOPICS):
            self._set_deleted(key, entry, delta)
        elif key.startswith(metadata.SECURITY):
            self.security.set(key, entry)
        elif key == records.CONTROLLER:
            delta.is_controller_changed = True
            self.controller = entry and Controller(
                entry.create_revision, records.parse_controller(entry)
            )
        elif key == records.CLUSTER:
            self.cluster_id = entry and records.parse_cluster(entry)
        elif key == records.CHANGED and entry is not None:
            self.changed_revision = entry.mod_revision

    def _set_broker(self, key: bytes, entry: KeyValue | None, delta: Delta) -> None:
        broker_id = records.parse_broker_key(key)
        registration = None if entry is None else records.parse_registration(entry)
        self.fenced.pop(broker_id, None)
        if entry is None or registration is None or registration.is_fenced:
            if self.brokers.pop(broker_id, None) is not None:
                delta.brokers.add(broker_id)
            counts_in = self.fenced
        else:
            delta.brokers.add(broker_id)
            counts_in = self.brokers
        if entry is not None and registration is not None:
            counts_in[broker_id] = LiveBroker(
                entry.create_revision, entry.mod_revision, registration
            )

    def _set_config(self, key: bytes, entry: KeyValue | None, delta: Delta) -> None:
        delta.configs[key] = None
        if entry is None:
            self.configs.pop(key, None)
        else:
            self.configs[key] = entry

    def _set_deleted(self, key: bytes, entry: KeyValue | None, delta: Delta) -> None:
        topic_id = records.parse_deleted_key(key)
        delta.deleted[topic_id] = None
        if entry is None:
            self.deleted.pop(topic_id, None)
        else:
            deleted = records.parse_deleted(entry)
            self.deleted[topic_id] = StoredDeletedTopic(entry.mod_revision, deleted)

    def _set_partition(self, key: bytes, entry: KeyValue | None, delta: Delta) -> None:
        topic_id, partition = records.parse_partition_key(key)
        delta.partitions[topic_id, partition] = None
        before = self.state(topic_id, partition)
        self._count(topic_id, partition, -1)
        if entry is not None:
            state = StoredState(entry.mod_revision, records.parse_partition(entry))
            self.stored.setdefault(topic_id, {})[partition] = state
        elif topic_id in self.stored:
            self.stored[topic_id].pop(partition, None)
            if not self.stored[topic_id]:
                del self.stored[topic_id]
        self._count(topic_id, partition, 1)
        self.seen.note(before, self.state(topic_id, partition))

    def _set_topic(self, key: bytes, entry: KeyValue | None, delta: Delta) -> Slices[None]:
        name = records.parse_topic_key(key)
        record = None if entry is None else (yield from records.topic_in_slices(entry))
        old_id = self.topic_ids.get(name)
        kept = 0  # partitions that are counted already
        if old_id is not None:
            old = self.topics[old_id]
            if record is not None and _is_enlargement(old.record, record):
                kept = old.record.partitions
            else:
                yield from self._count_all(old_id, range(old.record.partitions), -1)
                del self.topic_ids[name], self.topics[old_id]
                delta.topics.pop(old_id, None)
                delta.deleted_topics[old_id] = old
        if entry is not None and record is not None:
            record = self._shared(record)
            self.topics[record.topic_id] = Topic(
                name, entry.mod_revision, record, entry.create_revision
            )
            self.topic_ids[name] = record.topic_id
            delta.topics[record.topic_id] = None
            delta.deleted_topics.pop(record.topic_id, None)
            yield from self._count_all(record.topic_id, range(kept, record.partitions), 1)

    def _shared(self, record: TopicRecord) -> TopicRecord:
        """Let topics that were placed on the same incarnations share that dict: 0.2 KB each."""
        newest = next(reversed(self.topics.values()), None)
        if newest is not None and newest.record.broker_epochs == record.broker_epochs:
            return record._replace(broker_epochs=newest.record.broker_epochs)
        return record

    def _count(self, topic_id: bytes, partition: int, sign: int) -> None:
        state = self.state(topic_id, partition)
        if state is not None:
            self.counts.add(state.leader, state.replicas, sign)
        self._counted += 1

    def _count_all(self, topic_id: bytes, partitions: range, sign: int) -> Slices[None]:
        for place, partition in enumerate(partitions, 1):
            self._count(topic_id, partition, sign)
            if place % CLUSTER_PARTITIONS_PER_STEP == 0:
                yield


def _is_enlargement(old: TopicRecord, new: TopicRecord) -> bool:
    """Return whether the old partitions are what they were, also where no state is stored."""
    return (
        old.topic_id == new.topic_id
        and old.partitions <= new.partitions
        and old.replicas == new.replicas[: len(old.replicas)]
        and bool(old.replicas) == bool(new.replicas)
        and old.broker_epochs.items() <= new.broker_epochs.items()
        and old.enlarged == new.enlarged[: len(old.enlarged)]
    )


def _difference(old: ClusterImage, new: ClusterImage) -> Slices[Delta]:
    delta = Delta()
    delta.is_controller_changed = old.controller != new.controller
    delta.brokers.update((yield from _changed(old.brokers, new.brokers)))
    delta.configs = yield from _changed(old.configs, new.configs)
    delta.deleted = yield from _changed(old.deleted, new.deleted)
    for place, (topic_id, topic) in enumerate(new.topics.items(), 1):
        known = old.topics.get(topic_id)
        if known is None or known.mod_revision != topic.mod_revision:
            delta.topics[topic_id] = None
        if place % CLUSTER_PARTITIONS_PER_STEP == 0:
            yield
    for place, (topic_id, topic) in enumerate(old.topics.items(), 1):
        if topic_id not in new.topics:
            delta.deleted_topics[topic_id] = topic
        if place % CLUSTER_PARTITIONS_PER_STEP == 0:
            yield
    spent = 0
    for topic_id in {**old.stored, **new.stored}:
        states, others = old.stored.get(topic_id, {}), new.stored.get(topic_id, {})
        changed = yield from _changed(states, others)
        delta.partitions.update(dict.fromkeys([(topic_id, partition) for partition in changed]))
        spent += 1 + max(len(states), len(others))
        if spent >= CLUSTER_PARTITIONS_PER_STEP:
            spent = 0
            yield
    return delta


def _changed(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> Slices[dict[_Key, None]]:
    """Return the keys that only one of both has, or with another value."""
    changed: dict[_Key, None] = {}
    for here, there in ((old, new), (new, old)):
        for place, (key, value) in enumerate(here.items(), 1):
            if there.get(key) != value:
                changed[key] = None
            if place % CLUSTER_PARTITIONS_PER_STEP == 0:
                yield
    return changed
