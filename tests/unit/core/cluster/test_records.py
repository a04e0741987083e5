"""Keys and values of a cluster in the metadata store."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.cluster import records
from broker.core.cluster.records import (
    NO_LEADER,
    BrokerState,
    ControllerClaim,
    DeletedTopic,
    Endpoint,
    PartitionState,
    Registration,
    Restore,
    TopicRecord,
)
from broker.core.cluster.slices import complete
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.storage import metadata
from broker.storage.metadata import KeyValue

TOPIC_ID = bytes(range(16))
counts = st.integers(0, 1 << 62)
broker_ids = st.integers(0, (1 << 31) - 1)
topic_ids = st.binary(min_size=16, max_size=16)
replica_lists = st.lists(broker_ids, min_size=1, max_size=4, unique=True).map(tuple)
registrations = st.builds(
    Registration,
    incarnation=st.text(),
    endpoints=st.lists(
        st.builds(Endpoint, st.text(), st.text(), st.integers(1, (1 << 16) - 1)), max_size=3
    ).map(tuple),
    rack=st.none() | st.text(),
    host=st.text(),
    state=st.sampled_from(BrokerState),
    intact_since=counts,
    is_fenced=st.booleans(),
)


def test_the_restore_of_a_store_is_known_by_its_id() -> None:
    shown = id_to_text(TOPIC_ID)
    id_of = b'"id": "%b"' % shown.encode()

    entry = KeyValue(records.RESTORE, b"", 1, 1)
    for restore in (Restore(shown), Restore(shown, imported=shown)):
        stored = entry._replace(value=records.restore_value(restore))
        assert records.parse_restore(stored) == restore
    assert records.parse_restore(None) == Restore(records.NO_RESTORE)
    for value in (
        b'{"version": 1}',
        b'{"version": 1, "id": "a,b"}',
        b'{"version": 2, "id": ""}',
        b'{"version": 1, %b, "import": "a,b"}' % id_of,
        b'{"version": 1, %b, "import": 1}' % id_of,
    ):
        with pytest.raises(StorageError):
            records.parse_restore(entry._replace(value=value))


@st.composite
def topics(draw: Any) -> TopicRecord:
    replicas = tuple(draw(st.lists(replica_lists, max_size=5)))
    ids = {each for replica_list in replicas for each in replica_list}
    epochs = {each: draw(counts) for each in sorted(ids)}
    partitions = len(replicas) or draw(st.integers(1, 10_000))
    enlarged: tuple[tuple[int, dict[int, int]], ...] = ()
    if replicas and draw(st.booleans()):
        enlarged = ((draw(st.integers(0, partitions)), {each: draw(counts) for each in ids}),)
    return TopicRecord(draw(topic_ids), partitions, replicas, epochs, enlarged)


@st.composite
def states(draw: Any) -> PartitionState:
    replicas = draw(replica_lists)
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True).map(tuple))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    others = [each for each in isr if each != leader] if leader != NO_LEADER else []
    successor = draw(st.sampled_from([NO_LEADER, *others]))
    rest = [each for each in replicas if each not in isr]
    elr = tuple(rest[: draw(st.integers(0, len(rest)))])
    moved = draw(st.lists(st.sampled_from(replicas), unique=True).map(tuple))
    added = draw(st.integers(0, len(moved)))
    absent = draw(st.lists(st.sampled_from(isr + elr), unique=True))
    return PartitionState(
        leader,
        draw(counts),
        draw(counts),
        replicas,
        isr,
        draw(counts),
        successor,
        elr,
        moved[:added],
        moved[added:],
        tuple((each, draw(counts)) for each in absent),
    )


deleted_topics = st.builds(DeletedTopic, st.text(), counts, st.none(), st.just(0)) | st.builds(
    DeletedTopic, st.text(), counts, st.lists(broker_ids).map(tuple), counts
)


def entry(value: bytes, key: bytes = b"key") -> KeyValue:
    return KeyValue(key, value, 3, 4)


@given(registrations)
def test_a_registration_is_read_as_it_was_written(registration: Registration) -> None:
    value = records.registration_value(registration)

    assert records.parse_registration(entry(value)) == registration


def test_a_registration_of_a_release_that_does_not_fence_counts() -> None:
    _, earlier = VALUES["broker"]
    earlier = {"version": 1, **earlier}
    wrong = {**earlier, "fenced": 1}

    assert not records.parse_registration(entry(json.dumps(earlier).encode())).is_fenced
    with pytest.raises(StorageError, match="damaged"):
        records.parse_registration(entry(json.dumps(wrong).encode()))


@given(topics())
def test_a_topic_is_read_as_it_was_written(topic: TopicRecord) -> None:
    assert records.parse_topic(entry(records.topic_value(topic))) == topic


@given(states())
def test_a_partition_is_read_as_it_was_written(state: PartitionState) -> None:
    value = records.partition_value(state)

    assert records.parse_partition(entry(value)) == state
    assert json.loads(value)["version"] == 1


@given(deleted_topics)
def test_a_deleted_topic_is_read_as_it_was_written(deleted: DeletedTopic) -> None:
    assert records.parse_deleted(entry(records.deleted_value(deleted))) == deleted


@given(st.builds(ControllerClaim, broker_ids, counts), st.text())
def test_controller_and_cluster_are_read_as_they_were_written(
    claim: ControllerClaim, cluster_id: str
) -> None:
    assert records.parse_controller(entry(records.controller_value(claim))) == claim
    assert records.parse_cluster(entry(records.cluster_value(cluster_id))) == cluster_id


@given(topic_ids, broker_ids, st.integers(0, 9_999), st.text(min_size=1))
def test_a_key_is_read_as_it_was_written(
    topic_id: bytes, broker_id: int, partition: int, name: str
) -> None:
    key = records.partition_key(topic_id, partition)

    assert records.parse_partition_key(key) == (topic_id, partition)
    assert records.parse_broker_key(records.broker_key(broker_id)) == broker_id
    assert records.parse_deleted_key(metadata.deleted_topic_key(topic_id)) == topic_id
    assert records.parse_topic_key(metadata.topic_key(name)) == name


def test_a_topic_of_a_standalone_broker_and_its_remains_are_read() -> None:
    topic = b'{"version": 1, "id": "AAECAwQFBgcICQoLDA0ODw", "partitions": 3}'
    deleted = b'{"version": 1, "name": "t", "partitions": 3}'

    assert records.parse_topic(entry(topic)) == TopicRecord(TOPIC_ID, 3, (), {})
    assert records.parse_deleted(entry(deleted)) == DeletedTopic("t", 3)


def test_equal_replica_lists_of_a_large_topic_are_one_object_and_it_is_read_in_slices() -> None:
    topic = TopicRecord(
        TOPIC_ID, 10_000, tuple((n % 3, 3) for n in range(10_000)), {0: 1, 1: 1, 2: 1}
    )
    slices = records.topic_in_slices(entry(records.topic_value(topic)))

    next(slices)
    parsed = complete(slices)

    assert parsed == topic
    assert len({id(each) for each in parsed.replicas}) == 3


VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "cluster": (records.parse_cluster, {"cluster_id": "c"}),
    "broker": (
        records.parse_registration,
        {
            "incarnation": "i",
            "endpoints": [["PLAINTEXT", "h", 9092]],
            "rack": None,
            "host": "h",
            "state": "running",
        },
    ),
    "controller": (records.parse_controller, {"broker": 1, "broker_epoch": 2}),
    "topic": (
        records.parse_topic,
        {
            "id": "AAECAwQFBgcICQoLDA0ODw",
            "partitions": 2,
            "replicas": [[1, 2], [2, 1]],
            "brokers": {"1": 5, "2": 6},
        },
    ),
    "partition": (
        records.parse_partition,
        {
            "leader": 1,
            "leader_epoch": 2,
            "broker_epoch": 3,
            "replicas": [1, 2, 3],
            "isr": [1, 2],
            "partition_epoch": 4,
        },
    ),
    "deleted": (
        records.parse_deleted,
        {"name": "t", "partitions": 1, "pending": [1], "deleted_ms": 5},
    ),
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    -7,
    1.5,
    "",
    "x",
    [],
    [1, 1],
    [[]],
    [[1, 1]],
    ["1"],
    [-1],
    {},
    {"x": 1},
)
# Values of the list above that are possible in a field.
RIGHT = {
    "cluster_id": WRONG,
    "incarnation": WRONG,
    "host": WRONG,
    "rack": WRONG,
    "name": WRONG,
    "endpoints": ([],),
    "pending": ([], [1, 1]),
    "replicas": (),
    "isr": (),
}


def _damaged() -> list[tuple[str, str, Any]]:
    return [
        (kind, field, wrong)
        for kind, (_, fields) in VALUES.items()
        for field in fields
        for wrong in WRONG
        if not (isinstance(wrong, str | None) and RIGHT.get(field) is WRONG)
        and not (RIGHT.get(field, ()) is not WRONG and wrong in RIGHT.get(field, ()))
    ]


@pytest.mark.parametrize("kind", VALUES)
def test_the_examples_of_these_tests_are_valid(kind: str) -> None:
    parse, fields = VALUES[kind]

    assert parse(entry(json.dumps({"version": 1, **fields}).encode()))


@pytest.mark.parametrize(("kind", "field", "wrong"), _damaged())
def test_a_wrong_field_is_refused_and_the_error_names_the_key(
    kind: str, field: str, wrong: Any
) -> None:
    parse, fields = VALUES[kind]
    value = json.dumps({"version": 1, **fields, field: wrong}).encode()

    with pytest.raises(StorageError, match=r"damaged.*b'some/key|damaged key: b'some/key"):
        parse(entry(value, b"some/key"))


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, (_, fields) in VALUES.items() for field in fields]
)
def test_a_missing_field_is_refused(kind: str, field: str) -> None:
    parse, fields = VALUES[kind]
    # A topic and a deleted topic without the fields of a cluster are those of a standalone broker.
    rest = {name: each for name, each in fields.items() if name != field}

    with pytest.raises(StorageError, match="some/key"):
        parse(entry(json.dumps({"version": 1, **rest}).encode(), b"some/key"))


@pytest.mark.parametrize("kind", VALUES)
def test_a_newer_version_is_refused_by_its_number(kind: str) -> None:
    parse, fields = VALUES[kind]

    with pytest.raises(StorageError, match=r"some/key.*version 2"):
        parse(entry(json.dumps({"version": 2, **fields}).encode(), b"some/key"))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"\xff\xfe", b"[]", b"1", b"[" * 100_000, b"{}", b'{"version": 0}',
     b'{"version": true}', b'{"version": "1"}'],
)  # fmt: skip
def test_what_is_no_object_with_a_version_is_refused(kind: str, value: bytes) -> None:
    parse, _ = VALUES[kind]

    with pytest.raises(StorageError, match="some/key"):
        parse(entry(value, b"some/key"))


@pytest.mark.parametrize(
    "changed",
    [
        {"leader": 4},
        {"leader": 3},  # not in the ISR
        {"isr": [1, 2, 4]},
        {"isr": [1, 1]},
        {"replicas": [1, 2, 2]},
        {"successor": 1},
        {"successor": -2},
        {"leader": -1, "successor": 1},
        {"elr": [2]},  # in the ISR
        {"elr": [4]},
        {"elr": [3, 3]},
        {"elr": 3},
        {"adding": [4]},
        {"removing": [4]},
        {"adding": [3], "removing": [3]},
        {"absent": [[3, 7]]},  # no member
        {"absent": [[1, 7], [1, 8]]},
        {"absent": [[1, -7]]},
        {"absent": [[1, 7, 8]]},
        {"absent": [1]},
        {"last_known": [3]},  # it has members
        {"leader": -1, "isr": [], "last_known": [4]},
        {"leader": -1, "isr": [], "last_known": [1, 1]},
        {"leader": -1, "isr": [], "last_known": 1},
    ],
)
def test_an_impossible_partition_state_is_refused(changed: dict[str, Any]) -> None:
    parse, fields = VALUES["partition"]

    with pytest.raises(StorageError, match="damaged"):
        parse(entry(json.dumps({"version": 1, **fields, **changed}).encode()))


def test_the_last_known_members_of_a_partition_without_any_are_kept() -> None:
    state = PartitionState(NO_LEADER, 5, 0, (1, 2, 3), (), 7, last_known=(1, 3))

    assert records.parse_partition(entry(records.partition_value(state))) == state


@pytest.mark.parametrize(
    "changed",
    [
        {"partitions": 3},
        {"partitions": 0, "replicas": []},
        {"partitions": 10_001},
        {"replicas": [[1, 2], []]},
        {"replicas": [[1, 2], [3, 1]]},  # whose leader has no epoch
        {"replicas": [[1, 2], [2, 2]]},
        {"brokers": {"1": 5, "2": "6"}},
        {"brokers": {"1": 5, "two": 6}},
        {"enlarged": {"1": 5}},
        {"enlarged": [[0, {"2": 6}]]},  # the leader of partition 0 has no epoch
        {"enlarged": [[0, {"1": 5, "2": "6"}]]},
        {"enlarged": [["0", {"1": 5, "2": 6}]]},
        {"enlarged": [[0]]},
        {"enlarged": [[1, {"2": 6}], [0, {"1": 5}]]},
    ],
)
def test_an_impossible_topic_is_refused(changed: dict[str, Any]) -> None:
    parse, fields = VALUES["topic"]

    with pytest.raises(StorageError, match="damaged"):
        parse(entry(json.dumps({"version": 1, **fields, **changed}).encode()))


@pytest.mark.parametrize(
    ("parse", "key"),
    [
        (records.parse_broker_key, b"broker/"),
        (records.parse_broker_key, b"broker/-1"),
        (records.parse_broker_key, b"broker/1x"),
        (records.parse_broker_key, b"broker/11111111111"),
        (records.parse_partition_key, b"part/AAECAwQFBgcICQoLDA0ODw"),
        (records.parse_partition_key, b"part/AAECAwQFBgcICQoLDA0ODw/"),
        (records.parse_partition_key, b"part/AAECAwQFBgcICQoLDA0ODw/1/1"),
        (records.parse_partition_key, b"part/short/1"),
        (records.parse_partition_key, b"part/\xff/1"),
        (records.parse_deleted_key, b"deleted/short"),
        (records.parse_topic_key, b"topic/\xff"),
    ],
)
def test_a_damaged_key_is_refused(parse: Any, key: bytes) -> None:
    with pytest.raises(StorageError, match="damaged key"):
        parse(key)


def test_only_the_elected_incarnation_serves_and_not_while_it_hands_over() -> None:
    state = PartitionState(1, 5, 70, (1, 2), (1, 2), 9)

    assert state.is_served_by(1, 70)
    assert not state.is_served_by(2, 70)
    assert not state.is_served_by(1, 71)
    assert not state._replace(successor=2).is_served_by(1, 70)


def test_a_registration_without_the_revision_of_its_directory_is_read() -> None:
    parse, fields = VALUES["broker"]
    value = {"version": 1, **fields}

    assert parse(entry(json.dumps(value).encode())).intact_since == 0
    assert parse(entry(json.dumps({**value, "intact_since": 7}).encode())).intact_since == 7
    for wrong in (-1, "7", None, True):
        with pytest.raises(StorageError, match="damaged"):
            parse(entry(json.dumps({**value, "intact_since": wrong}).encode()))


def test_replicas_that_are_being_added_do_not_raise_the_min_isr_in_force() -> None:
    state = PartitionState(1, 0, 1, (1, 2, 3), (1, 2), 0)

    assert [state.min_isr(each) for each in (1, 2, 3, 4)] == [1, 2, 3, 3]
    growing = state._replace(adding=(2, 3))
    assert [growing.min_isr(each) for each in (1, 2)] == [1, 1]
    assert PartitionState(1, 0, 1, (1,), (1,), 0).min_isr(2) == 1
    assert state._replace(adding=(1, 2, 3)).min_isr(2) == 1


def test_a_partition_has_the_epochs_of_the_last_enlargement_that_names_some() -> None:
    topic = TopicRecord(TOPIC_ID, 4, ((1,),) * 4, {1: 5}, ((1, {1: 7}), (3, {1: 9})))

    assert [topic.epochs_of(each)[1] for each in range(4)] == [5, 7, 7, 9]


def test_the_epochs_of_an_enlargement_need_not_name_who_leads_later_partitions() -> None:
    replicas = ((1,), (2,), (1,))
    topic = TopicRecord(TOPIC_ID, 3, replicas, {1: 5, 2: 6}, ((1, {2: 7}), (2, {1: 8})))

    assert records.parse_topic(entry(records.topic_value(topic))) == topic
