from collections.abc import Callable

import pytest

from broker.core.groups.classic import ClassicGroup
from broker.core.groups.consumer.commands import ConsumerSettings, MigrationPolicy
from broker.core.groups.consumer.group import ConsumerGroup
from tests.unit.core.groups.consumer.rolling import (
    GROUP,
    ClassicClient,
    Client,
    ConsumerClient,
    World,
)

SEEDS = range(30)


def classic(world: World, name: str, *, is_cooperative: bool) -> Client:
    return ClassicClient(world, name, is_cooperative=is_cooperative)


def roll(world: World, make: Callable[[World, str], Client]) -> None:
    """Replace one client after the other."""
    for place, old in enumerate(list(world.clients)):
        if world.random.random() < 0.3:
            world.clients.remove(old)  # It dies, and its session has to end.
        else:
            old.leave()
            world.clients.remove(old)
        world.run(world.random.randrange(6))
        world.clients.append(make(world, f"{old.name}{place}"))
        world.run(world.random.randrange(40))
        if world.random.random() < 0.5:
            world.settle_after_sessions()


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", SEEDS)
def test_three_members_rolled_up_and_down_never_own_a_partition_twice(
    seed: int, is_cooperative: bool
) -> None:
    world = World(seed)

    def old(world: World, name: str) -> Client:
        return ClassicClient(world, name, is_cooperative=is_cooperative)

    world.clients = [old(world, name) for name in "abc"]
    world.settle()
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)

    roll(world, ConsumerClient)
    world.settle_after_sessions()
    group = world.shard.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    assert group.state.classic_count == 0

    roll(world, old)
    world.settle_after_sessions()
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_coordinator_that_is_lost_in_the_middle_of_it_changes_nothing(
    seed: int, is_cooperative: bool
) -> None:
    world = World(seed)
    world.clients = [
        ClassicClient(world, name, is_cooperative=is_cooperative) for name in ("a", "b")
    ]
    world.settle()
    world.clients.append(ConsumerClient(world, "c"))
    for _ in range(6):
        world.run(world.random.randrange(12))
        world.reload()
    world.settle_after_sessions()

    world.clients.pop().leave()
    world.reload()
    for _ in range(4):
        world.run(world.random.randrange(12))
        world.reload()

    world.settle_after_sessions()


@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        (MigrationPolicy.DISABLED, ClassicGroup),
        (MigrationPolicy.DOWNGRADE, ClassicGroup),
        (MigrationPolicy.UPGRADE, ConsumerGroup),
        (MigrationPolicy.BIDIRECTIONAL, ConsumerGroup),
    ],
)
def test_a_group_with_classic_members_is_upgraded_only_where_the_policy_says_so(
    policy: MigrationPolicy, becomes: type
) -> None:
    world = World(1, ConsumerSettings(migration=policy))
    world.clients = [ClassicClient(world, "a", is_cooperative=False)]
    world.settle()

    world.clients.append(ConsumerClient(world, "b"))
    world.refuses = becomes is ClassicGroup
    world.run(10)

    assert isinstance(world.shard.groups[GROUP], becomes)


@pytest.mark.parametrize(
    ("policy", "becomes"),
    [
        (MigrationPolicy.UPGRADE, ConsumerGroup),
        (MigrationPolicy.BIDIRECTIONAL, ClassicGroup),
    ],
)
def test_a_group_is_downgraded_when_its_last_consumer_member_leaves_where_the_policy_says_so(
    policy: MigrationPolicy, becomes: type
) -> None:
    world = World(1, ConsumerSettings(migration=policy))
    world.clients = [ClassicClient(world, "a", is_cooperative=False)]
    world.settle()
    world.clients.append(ConsumerClient(world, "b"))
    world.settle()

    world.clients.pop().leave()
    world.settle()

    assert isinstance(world.shard.groups[GROUP], becomes)


def test_each_conversion_is_one_batch() -> None:
    world = World(1)
    world.clients = [ClassicClient(world, "a", is_cooperative=True)]
    world.settle()
    before = len(world.log)

    world.clients.append(ConsumerClient(world, "b"))
    world.clients[-1].step()
    assert isinstance(world.shard.groups[GROUP], ConsumerGroup)
    assert len(world.log) == before + 1

    before = len(world.log)
    world.clients.pop().leave()
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)
    assert len(world.log) == before + 1
