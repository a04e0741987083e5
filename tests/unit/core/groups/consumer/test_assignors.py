"""Properties of every assignment, of any assignor and from any previous one (KIP-848)."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.groups.consumer.assignors import ASSIGNORS
from broker.core.groups.consumer.targets import Assigned, AssignmentSpec

Places = dict[str, set[tuple[bytes, int]]]

TOPICS = [bytes([each]) * 16 for each in range(6)]
sizes = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=6)
members = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


def assigned(name: str, spec: AssignmentSpec) -> Assigned:
    work = ASSIGNORS[name](spec)
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Assigned = end.value
            return result


def places(result: Mapping[str, Mapping[bytes, list[int]]]) -> Places:
    return {
        member: {(topic, each) for topic, numbers in topics.items() for each in numbers}
        for member, topics in result.items()
    }


def previous(result: Assigned) -> dict[str, dict[bytes, tuple[int, ...]]]:
    return {
        member: {topic: tuple(sorted(numbers)) for topic, numbers in topics.items()}
        for member, topics in result.items()
    }


def alike(
    names: list[str], partitions: dict[bytes, int], before: Assigned | None = None
) -> AssignmentSpec:
    topics = tuple(sorted(partitions))
    return AssignmentSpec(dict.fromkeys(names, topics), partitions, previous(before or {}), {})


@st.composite
def mixed_specs(draw: st.DrawFn) -> AssignmentSpec:
    """Members with subscriptions of their own, and something that was before."""
    partitions = draw(sizes)
    names = draw(members)
    subsets = st.sets(st.sampled_from(sorted(partitions))) if partitions else st.just(set())
    subscriptions = {name: tuple(sorted(draw(subsets))) for name in names}
    before: dict[str, dict[bytes, tuple[int, ...]]] = {}
    for topic in TOPICS:
        for number in range(draw(st.integers(0, 4))):
            owner = draw(st.sampled_from(names))
            topics = before.setdefault(owner, {})
            topics[topic] = (*topics.get(topic, ()), number)
    return AssignmentSpec(subscriptions, partitions, before, {})


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(spec=mixed_specs())
def test_every_partition_of_a_subscribed_topic_is_assigned_once_to_a_subscriber(
    name: str, spec: AssignmentSpec
) -> None:
    given_out = [
        (member, topic, number)
        for member, topics in assigned(name, spec).items()
        for topic, numbers in topics.items()
        for number in numbers
    ]

    assert all(topic in spec.subscriptions[member] for member, topic, _ in given_out)
    subscribed = {topic for topics in spec.subscriptions.values() for topic in topics}
    assert sorted((topic, number) for _, topic, number in given_out) == sorted(
        (topic, number) for topic in subscribed for number in range(spec.partitions[topic])
    )


@given(names=members, partitions=sizes, before=mixed_specs())
def test_uniform_shares_of_members_with_the_same_topics_differ_by_at_most_one(
    names: list[str], partitions: dict[bytes, int], before: AssignmentSpec
) -> None:
    spec = alike(names, partitions)._replace(previous=before.previous)

    counts = [len(each) for each in places(assigned("uniform", spec)).values()]

    assert max(counts) - min(counts) <= 1


@given(names=members, partitions=sizes, data=st.data())
def test_uniform_moves_only_the_partitions_of_a_leaving_member(
    names: list[str], partitions: dict[bytes, int], data: st.DataObject
) -> None:
    first = assigned("uniform", alike(names, partitions))
    gone = data.draw(st.sampled_from(names))
    left = [name for name in names if name != gone]

    second = places(assigned("uniform", alike(left, partitions, first)))

    assert all(places(first)[name] <= second[name] for name in left)


@given(names=members, partitions=sizes)
def test_uniform_moves_to_a_new_member_at_most_its_share(
    names: list[str], partitions: dict[bytes, int]
) -> None:
    first = assigned("uniform", alike(names, partitions))

    second = places(assigned("uniform", alike([*names, "z"], partitions, first)))

    assert all(second[name] <= places(first)[name] for name in names)


@given(spec=mixed_specs())
def test_uniform_changes_nothing_when_nothing_has_changed(spec: AssignmentSpec) -> None:
    first = assigned("uniform", spec)

    assert places(assigned("uniform", spec._replace(previous=previous(first)))) == places(first)


@given(spec=mixed_specs())
def test_uniform_leaves_no_single_move_that_would_balance_further(spec: AssignmentSpec) -> None:
    result = assigned("uniform", spec)

    counts = {member: len(each) for member, each in places(result).items()}
    for rich, topics in result.items():
        for poor, subscribed in spec.subscriptions.items():
            if any(topic in subscribed and numbers for topic, numbers in topics.items()):
                assert counts[rich] - counts[poor] <= 1


@given(names=members, partitions=sizes)
def test_range_assigns_consecutive_partitions_in_member_order_and_copartitions_equal_topics(
    names: list[str], partitions: dict[bytes, int]
) -> None:
    result = assigned("range", alike(names, partitions))

    for topic, size in partitions.items():
        parts = [result[name].get(topic, []) for name in sorted(names)]
        assert [number for part in parts for number in part] == list(range(size))
        assert all(len(some) >= len(others) for some, others in pairwise(parts))
        for other, other_size in partitions.items():
            if other_size == size:
                assert parts == [result[name].get(other, []) for name in sorted(names)]


def test_range_orders_static_members_by_instance_id() -> None:
    spec = AssignmentSpec(
        {"b": (TOPICS[0],), "a": (TOPICS[0],)}, {TOPICS[0]: 2}, {}, {"a": "y", "b": "x"}
    )

    assert assigned("range", spec) == {"a": {TOPICS[0]: [1]}, "b": {TOPICS[0]: [0]}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_work_grows_with_members_and_partitions_and_is_done_in_small_steps(name: str) -> None:
    def work(count: int, *, is_mixed: bool) -> list[int]:
        topics = {number.to_bytes(16, "big"): 10 for number in range(count)}
        spec = alike([f"m{each}" for each in range(count)], {})
        subscriptions = {
            member: tuple(list(topics)[place % 2 :: 2] if is_mixed else topics)[:20]
            for place, member in enumerate(spec.subscriptions)
        }
        used = {topic for each in subscriptions.values() for topic in each}
        partitions = {topic: size for topic, size in topics.items() if topic in used}
        return list(
            ASSIGNORS[name](spec._replace(subscriptions=subscriptions, partitions=partitions))
        )

    for is_mixed in (False, True):
        small, large = work(100, is_mixed=is_mixed), work(400, is_mixed=is_mixed)
        assert sum(large) <= 5 * sum(small)
        assert max(large) <= 1_000
