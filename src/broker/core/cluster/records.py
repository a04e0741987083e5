"""Keys and values of a cluster in the metadata store. Values are JSON objects with "version": 1.

    key                  value
    cluster              cluster_id
    broker/<id>          incarnation, endpoints, rack, host, state [, intact_since, fenced];
                         leased
    directory/<id>       [intact_since]; of the broker's last registration, which has put it
    controller           broker, broker_epoch; leased
    topic/<name>         id, partitions [, replicas, brokers [, enlarged]]
    topicid/<id>         name
    part/<topic id>/<n>  leader, leader_epoch, broker_epoch, replicas, isr, partition_epoch
                         [, successor, elr, adding, removing, absent, last_known]; no key
                         before the first change
    deleted/<topic id>   name, partitions [, pending, deleted_ms]; until no broker has its folders
    restore              id, another one after each restore of a backup that was declared
                         [, import: that of the import that has made this store]
    changed              nothing; put with each change of topics, configurations and producer ids

The broker epoch is the revision at which `broker/<id>` was created, the controller epoch that of
`controller`. A broker that is `fenced` does not count yet: it may have died before it was
registered. Releases that do not know of that write no such field, and do not look at it.

A partition without a key has the state that follows from its topic's value: the first replica
leads, in the incarnation that `brokers` names, with leader epoch 0, and all replicas are in the
ISR. `enlarged` names other incarnations for all partitions from a number on: brokers that had lost
their records between the creation and an enlargement. A topic without `replicas` was created by a
standalone broker: its partitions have no leader until a controller elects one, which happens only
if the brokers share one data directory.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from broker.core.cluster.slices import Slices, complete
from broker.model.errors import StorageError
from broker.model.identifiers import id_from_text, id_to_text
from broker.model.limits import PARTITIONS_PER_TOPIC_MAX
from broker.model.listener import UNSECURED, ListenerConfig
from broker.storage import metadata
from broker.storage.metadata import KeyValue

CLUSTER = b"cluster"
CONTROLLER = b"controller"
RESTORE = b"restore"
CHANGED = b"changed"
BROKERS = b"broker/"
DIRECTORIES = b"directory/"
PARTITIONS = b"part/"
PLAINTEXT = "PLAINTEXT"  # the name of a listener, and a security protocol
NO_LEADER = -1
NO_EPOCH = 0  # revisions begin at 1
NO_RESTORE = "none"  # an id, of a store without the key
VERSION = 1

Replicas: TypeAlias = tuple[int, ...]  # broker ids; the first is the preferred leader


class Transaction(NamedTuple):
    """Guards and operations of one transaction of the metadata store."""

    guards: Sequence[metadata.Guard]
    operations: Sequence[metadata.Operation]


class BrokerState(Enum):
    """What a broker asks for."""

    RUNNING = "running"
    DRAINING = "draining"  # it leads nothing new, and its leaderships move elsewhere


class Endpoint(NamedTuple):
    """The wire protocol of an address ("": all), the address, and the listener that it is of."""

    name: str
    host: str
    port: int
    listener: str = PLAINTEXT
    security: str = PLAINTEXT


class Registration(NamedTuple):
    """The value of `broker/<id>`."""

    incarnation: str  # of this registration: no other one, of any broker, has the same
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    host: str  # brokers with the same one fail together
    state: BrokerState
    intact_since: int = NO_EPOCH  # its directory has lost nothing since; NO_EPOCH: since this one
    is_fenced: bool = False  # it has not seen yet that it is registered

    def endpoint(self, protocol: str, listener: ListenerConfig = UNSECURED) -> Endpoint | None:
        """Return where a protocol is served over a listener, or else over one of its security.

        None: nowhere. An endpoint without a wire protocol serves all of them.
        """
        found = [each for each in self.endpoints if each.name in ("", protocol)]
        named = [each for each in found if each.listener == listener.name]
        named += [each for each in found if each.security == listener.security.name]
        return named[0] if named else None


class Restore(NamedTuple):
    """The value of `restore`."""

    id: str  # another one whenever the store's revisions do not follow those before
    imported: str = NO_RESTORE  # the id of the import that has made this store


class ControllerClaim(NamedTuple):
    """The value of `controller`."""

    broker: int
    broker_epoch: int


class TopicRecord(NamedTuple):
    """The value of `topic/<name>`."""

    topic_id: bytes
    partitions: int
    replicas: tuple[Replicas, ...]  # of each partition; empty: created by a standalone broker
    broker_epochs: Mapping[int, int]  # broker epochs when it was placed on them
    enlarged: tuple[tuple[int, Mapping[int, int]], ...] = ()  # others, from a partition on

    def epochs_of(self, partition: int) -> Mapping[int, int]:
        """Return the broker epochs that count for a partition."""
        for first, epochs in reversed(self.enlarged):
            if partition >= first:
                return epochs
        return self.broker_epochs


class PartitionState(NamedTuple):
    """The value of `part/<topic id>/<n>`."""

    leader: int  # or NO_LEADER
    # Increases whenever (leader, broker_epoch) changes, and when a reassignment removes replicas.
    leader_epoch: int
    broker_epoch: int  # of the leader's incarnation that was elected; NO_EPOCH without a leader
    replicas: Replicas
    isr: Replicas
    partition_epoch: int  # increases with every change
    successor: int = NO_LEADER  # the leader has stopped, or will, and hands over to this broker
    elr: Replicas = ()  # not in the ISR, and they have all that may have been acknowledged
    adding: Replicas = ()  # replicas that a reassignment adds
    removing: Replicas = ()  # replicas that it removes once all those are in the ISR
    # Members of ISR and ELR that were not registered when this was written, and the revision as of
    # which each of them had everything (eligibility.py).
    absent: tuple[tuple[int, int], ...] = ()
    # Without any member: those that were the last ones, and have lost records since (KIP-966).
    last_known: Replicas = ()

    def min_isr(self, configured: int) -> int:
        """Return the min.insync.replicas in force, which replicas being added do not raise."""
        return min(configured, max(len(self.replicas) - len(self.adding), 1))

    def is_served_by(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether a broker's incarnation may serve the partition, if it is not fenced."""
        return (
            self.leader == broker_id
            and self.broker_epoch == broker_epoch
            and self.successor == NO_LEADER
        )


class DeletedTopic(NamedTuple):
    """The value of `deleted/<topic id>`."""

    name: str
    partitions: int
    pending: Replicas | None = None  # brokers that may have folders; None: a standalone broker
    deleted_ms: int = 0  # wall time; 0: not known


# ---- keys
# -------------------------------------------------------------------------------------------------


def broker_key(broker_id: int) -> bytes:
    """Return the key of a broker's registration."""
    return b"%b%d" % (BROKERS, broker_id)


def parse_broker_key(key: bytes) -> int:
    """Return the broker id of a key; StorageError when it has none."""
    return _number(key, key.removeprefix(BROKERS))


def directory_key(broker_id: int) -> bytes:
    """Return the key of what a broker has registered last of its directory."""
    return b"%b%d" % (DIRECTORIES, broker_id)


def partition_key(topic_id: bytes, partition: int) -> bytes:
    """Return the key of a partition's state."""
    return b"%b%b/%d" % (PARTITIONS, id_to_text(topic_id).encode(), partition)


def parse_partition_key(key: bytes) -> tuple[bytes, int]:
    """Return topic id and partition of a key; StorageError when it has none."""
    shown_id, _, number = key.removeprefix(PARTITIONS).partition(b"/")
    return _id(key, shown_id), _number(key, number)


def parse_topic_key(key: bytes) -> str:
    """Return the topic's name of a key; StorageError when it is no UTF-8."""
    try:
        return key.removeprefix(metadata.TOPICS).decode()
    except UnicodeDecodeError:
        raise _damaged_key(key) from None


def parse_deleted_key(key: bytes) -> bytes:
    """Return the topic id of the key of a deleted topic; StorageError when it has none."""
    return _id(key, key.removeprefix(metadata.DELETED_TOPICS))


# ---- values
# -------------------------------------------------------------------------------------------------


def cluster_value(cluster_id: str) -> bytes:
    """Return the value of `cluster`."""
    return _json({"cluster_id": cluster_id})


def parse_cluster(entry: KeyValue) -> str:
    """Return the cluster id; StorageError when the value is damaged or newer."""
    match _object(entry):
        case {"cluster_id": str(cluster_id)}:
            return cluster_id
    raise _damaged(entry)


def registration_value(registration: Registration) -> bytes:
    """Return the value of `broker/<id>`."""
    value: dict[str, object] = {
        "incarnation": registration.incarnation,
        "endpoints": [_endpoint_fields(each) for each in registration.endpoints],
        "rack": registration.rack,
        "host": registration.host,
        "state": registration.state.value,
    }
    if registration.intact_since != NO_EPOCH:
        value["intact_since"] = registration.intact_since
    if registration.is_fenced:
        value["fenced"] = True
    return _json(value)


def parse_registration(entry: KeyValue) -> Registration:
    """Return a broker's registration; StorageError when the value is damaged or newer."""
    match _object(entry):
        case {
            "incarnation": str(incarnation),
            "endpoints": list(endpoints),
            "rack": str() | None as rack,
            "host": str(host),
            "state": "running" | "draining" as state,
            **more,
        }:
            parsed = tuple(_endpoint(entry, each) for each in endpoints)
            since = more.get("intact_since", NO_EPOCH)
            is_fenced = more.get("fenced", False)
            if _are_counts([since]) and isinstance(is_fenced, bool):
                return Registration(
                    *(incarnation, parsed, rack, host, BrokerState(state), since, is_fenced)
                )
    raise _damaged(entry)


def directory_value(intact_since: int) -> bytes:
    """Return the value of `directory/<id>`; NO_EPOCH: intact since the registration."""
    return _json({} if intact_since == NO_EPOCH else {"intact_since": intact_since})


def parse_directory(entry: KeyValue) -> int:
    """Return since when the directory that was registered last is intact.

    Raises:
        StorageError: the value is damaged or newer.
    """
    since = _object(entry).get("intact_since", entry.mod_revision)
    if _are_counts([since]):
        return int(since)
    raise _damaged(entry)


def changed_value() -> bytes:
    """Return the value of `changed`, whose revision is what counts."""
    return _json({})


def restore_value(restore: Restore) -> bytes:
    """Return the value of `restore`."""
    value = {"id": restore.id}
    if restore.imported != NO_RESTORE:
        value["import"] = restore.imported
    return _json(value)


def parse_restore(entry: KeyValue | None) -> Restore:
    """Return the store's last restore; StorageError when it is damaged or newer."""
    if entry is None:
        return Restore(NO_RESTORE)
    match _object(entry):
        case {"id": str(restore_id), **more}:
            imported = more.get("import", NO_RESTORE)
            if imported != NO_RESTORE:
                if not isinstance(imported, str):
                    raise _damaged(entry)
                imported = id_to_text(_id(entry.key, imported.encode()))
            return Restore(id_to_text(_id(entry.key, restore_id.encode())), imported)
    raise _damaged(entry)


def controller_value(claim: ControllerClaim) -> bytes:
    """Return the value of `controller`."""
    return _json(claim._asdict())


def parse_controller(entry: KeyValue) -> ControllerClaim:
    """Return the claim of a controller; StorageError when the value is damaged or newer."""
    match _object(entry):
        case {"broker": broker, "broker_epoch": epoch} if _are_counts([broker, epoch]):
            return ControllerClaim(broker, epoch)
    raise _damaged(entry)


def topic_value(topic: TopicRecord) -> bytes:
    """Return the value of `topic/<name>`."""
    value: dict[str, object] = {"id": id_to_text(topic.topic_id), "partitions": topic.partitions}
    if topic.replicas:
        value["replicas"] = topic.replicas
        value["brokers"] = _shown_epochs(topic.broker_epochs)
        if topic.enlarged:
            value["enlarged"] = [[first, _shown_epochs(epochs)] for first, epochs in topic.enlarged]
    return _json(value)


def _shown_epochs(epochs: Mapping[int, int]) -> dict[str, int]:
    return {str(each): epoch for each, epoch in epochs.items()}


def topic_name_value(name: str) -> bytes:
    """Return the value of `topicid/<id>`."""
    return _json({"name": name})


def parse_topic(entry: KeyValue) -> TopicRecord:
    """Return a topic; StorageError when the value is damaged or newer."""
    return complete(topic_in_slices(entry))


def topic_in_slices(entry: KeyValue) -> Slices[TopicRecord]:
    """Parse a topic, of up to 10,000 partitions; StorageError as for `parse_topic`.

    Equal replica lists become one object.
    """
    value = _object(entry)
    match value:
        case {"id": str(shown_id), "partitions": partitions} if _are_counts([partitions]):
            topic_id = _id(entry.key, shown_id.encode())
            if not 0 < partitions <= PARTITIONS_PER_TOPIC_MAX:
                raise _damaged(entry)
        case _:
            raise _damaged(entry)
    match value:
        case {"replicas": list(lists), "brokers": dict(brokers)} if len(lists) == partitions:
            pass
        case {"replicas": _} | {"brokers": _}:
            raise _damaged(entry)
        case _:
            return TopicRecord(topic_id, partitions, (), {})
    epochs = _epochs(entry, brokers)
    enlarged = _enlarged(entry, value.get("enlarged", []))
    if partitions > _PARTITIONS_AT_ONCE:
        yield
    try:
        unique = {each: each for each in map(tuple, lists)}
        replicas = tuple([unique[tuple(each)] for each in lists])
    except TypeError:  # no lists, or lists of lists
        raise _damaged(entry) from None
    if not _are_placed(replicas, unique, epochs, enlarged):
        raise _damaged(entry)
    if partitions > _PARTITIONS_AT_ONCE:
        yield
    return TopicRecord(topic_id, partitions, replicas, epochs, enlarged)


def _epochs(entry: KeyValue, brokers: dict[str, Any]) -> dict[int, int]:
    epochs = {_number(entry.key, each.encode()): epoch for each, epoch in brokers.items()}
    if not _are_counts(list(epochs.values())):
        raise _damaged(entry)
    return epochs


def _enlarged(entry: KeyValue, parts: object) -> tuple[tuple[int, dict[int, int]], ...]:
    if not isinstance(parts, list):
        raise _damaged(entry)
    parsed: list[tuple[int, dict[int, int]]] = []
    for part in parts:
        match part:
            case [first, dict(brokers)] if _are_counts([first]):
                parsed.append((first, _epochs(entry, brokers)))
            case _:
                raise _damaged(entry)
    return tuple(parsed)


def partition_value(state: PartitionState) -> bytes:
    """Return the value of `part/<topic id>/<n>`."""
    # The tuples of Python are not JSON, its lists of numbers are; json.dumps takes five times as
    # long, for each of the partitions that a failed broker has led.
    more = "" if state.successor == NO_LEADER else f', "successor": {state.successor}'
    if state.elr:
        more += f', "elr": {list(state.elr)}'
    if state.adding:
        more += f', "adding": {list(state.adding)}'
    if state.removing:
        more += f', "removing": {list(state.removing)}'
    if state.absent:
        more += f', "absent": {[list(each) for each in state.absent]}'
    if state.last_known:
        more += f', "last_known": {list(state.last_known)}'
    return (
        f'{{"version": {VERSION}, "leader": {state.leader}, "leader_epoch": {state.leader_epoch},'
        f' "broker_epoch": {state.broker_epoch}, "replicas": {list(state.replicas)},'
        f' "isr": {list(state.isr)}, "partition_epoch": {state.partition_epoch}{more}}}'
    ).encode()


def committed(state: PartitionState) -> int:
    """Return how many members of a stored ISR count for min.insync.replicas (isr.py).

    A log compares it with the smaller of that setting and the number of replicas. So all replicas
    are returned as soon as those in sync are as many as there are without those being added:
    `PartitionState.min_isr`.
    """
    if state.elr or state.leader == NO_LEADER:
        return 0
    is_full = len(state.isr) >= max(len(state.replicas) - len(state.adding), 1)
    return len(state.replicas) if is_full else len(state.isr)


def parse_partition(entry: KeyValue) -> PartitionState:
    """Return a partition's state; StorageError when the value is damaged or newer."""
    value = _object(entry)
    try:
        state = PartitionState(
            value["leader"],
            value["leader_epoch"],
            value["broker_epoch"],
            tuple(value["replicas"]),
            tuple(value["isr"]),
            value["partition_epoch"],
            value.get("successor", NO_LEADER),
            tuple(value.get("elr", ())),
            tuple(value.get("adding", ())),
            tuple(value.get("removing", ())),
            tuple([(broker, revision) for broker, revision in value.get("absent", ())]),
            tuple(value.get("last_known", ())),
        )
        if _is_possible(state):
            return state
    except (KeyError, TypeError, ValueError):
        pass  # the same message as for impossible values
    raise _damaged(entry)


def deleted_value(deleted: DeletedTopic) -> bytes:
    """Return the value of `deleted/<topic id>`."""
    value: dict[str, object] = {"name": deleted.name, "partitions": deleted.partitions}
    if deleted.pending is not None:
        value["pending"] = deleted.pending
        value["deleted_ms"] = deleted.deleted_ms
    return _json(value)


def parse_deleted(entry: KeyValue) -> DeletedTopic:
    """Return a deleted topic; StorageError when the value is damaged or newer."""
    value = _object(entry)
    match value:
        case {"name": str(name), "partitions": partitions} if _are_counts([partitions]):
            pass
        case _:
            raise _damaged(entry)
    match value:
        case {"pending": list(pending), "deleted_ms": deleted_ms}:
            if _are_counts([deleted_ms, *pending]):
                return DeletedTopic(name, partitions, tuple(pending), deleted_ms)
        case {"pending": _} | {"deleted_ms": _}:
            pass
        case _:
            return DeletedTopic(name, partitions)
    raise _damaged(entry)


# ---- checks
# -------------------------------------------------------------------------------------------------

_PARTITIONS_AT_ONCE = 400  # whose parsing takes no slices of its own: 0.2 ms


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps({"version": VERSION, **fields}).encode()


def _object(entry: KeyValue) -> dict[str, Any]:
    try:
        value = json.loads(entry.value.decode())  # else it guesses the encoding
    except (ValueError, RecursionError):
        raise _damaged(entry) from None
    version = value.get("version") if type(value) is dict else None
    if type(version) is not int or version < VERSION:
        raise _damaged(entry)
    if version > VERSION:
        raise StorageError(
            f"the metadata store holds {entry.key!r} in version {version}; this broker reads"
            f" version {VERSION}: start a newer version of the broker"
        )
    fields: dict[str, Any] = value
    return fields


def _endpoint_fields(endpoint: Endpoint) -> list[object]:
    """Return what versions without other listeners can read, if that is all."""
    is_plain = endpoint.listener == endpoint.security == PLAINTEXT
    return list(endpoint[:3] if is_plain else endpoint)


def _endpoint(entry: KeyValue, endpoint: object) -> Endpoint:
    match endpoint:
        case [str(name), str(host), int(port)] if 0 < port < 1 << 16:
            return Endpoint(name, host, port)
        case [str(name), str(host), int(port), str(listener), str(security)] if 0 < port < 1 << 16:
            return Endpoint(name, host, port, listener, security)
    raise _damaged(entry)


def _is_possible(state: PartitionState) -> bool:
    leader, leader_epoch, broker_epoch, replicas, _, partition_epoch, successor = state[:7]
    if not _are_counts((leader_epoch, broker_epoch, partition_epoch, *replicas)):
        return False
    if not _are_possible_members(state) or successor == leader != NO_LEADER:
        return False
    if type(leader) is not int or type(successor) is not int:
        return False
    if leader == NO_LEADER:
        return successor == NO_LEADER
    return leader in state.isr and successor >= NO_LEADER


def _are_possible_members(state: PartitionState) -> bool:
    replicas, members = set(state.replicas), state.isr + state.elr
    if len(replicas) != len(state.replicas) or len(set(members)) != len(members):
        return False
    if not replicas.issuperset(members):
        return False
    if (state.adding or state.removing) and not _is_possible_reassignment(state):
        return False
    if state.last_known and (members or not _are_replicas(state.last_known)):
        return False
    return replicas.issuperset(state.last_known) and (
        not state.absent or _are_possible_absentees(state)
    )


def _is_possible_reassignment(state: PartitionState) -> bool:
    moved = state.adding + state.removing
    return len(set(moved)) == len(moved) and set(moved).issubset(state.replicas)


def _are_possible_absentees(state: PartitionState) -> bool:
    absent = [each for each, _ in state.absent]
    return (
        _are_counts(revision for _, revision in state.absent)
        and len(set(absent)) == len(absent)
        and set(absent).issubset(state.isr + state.elr)
    )


def _are_replicas(replicas: tuple[object, ...]) -> bool:
    return 0 < len(replicas) == len(set(replicas)) and _are_counts(replicas)


def _are_placed(
    replicas: tuple[Replicas, ...],
    unique: Iterable[Replicas],
    epochs: Mapping[int, int],
    enlarged: tuple[tuple[int, Mapping[int, int]], ...],
) -> bool:
    """Return whether the epoch of each first replica is known."""
    if not all(_are_replicas(each) and each[0] in epochs for each in unique):
        return False
    if not enlarged:
        return True
    firsts = [first for first, _ in enlarged]
    ends = [*firsts[1:], len(replicas)]
    return firsts == sorted(firsts) and all(
        each[0] in others
        for (first, others), end in zip(enlarged, ends, strict=True)
        for each in replicas[first:end]
    )


def _are_counts(values: Iterable[object]) -> bool:
    """Return whether all are integers, not booleans, that are not negative."""
    return all(type(each) is int and each >= 0 for each in values)


def _number(key: bytes, digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise _damaged_key(key)
    return int(digits)


_DIGITS_MAX = 10  # of an int32


def _id(key: bytes, shown_id: bytes) -> bytes:
    try:
        return id_from_text(shown_id.decode())
    except ValueError:
        raise _damaged_key(key) from None


def _damaged_key(key: bytes) -> StorageError:
    return StorageError(f"the metadata store holds a damaged key: {key!r}")


def _damaged(entry: KeyValue) -> StorageError:
    shown = entry.value[:_SHOWN_BYTES]
    return StorageError(f"the metadata store holds a damaged {entry.key!r}: {shown!r}")


_SHOWN_BYTES = 200
