"""A log leads and follows in turn, in place, and whoever depends on that is told."""

import asyncio
from typing import Any

import pytest

from broker.core.cluster import records
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState
from broker.core.topics.lookup import log_of
from broker.core.topics.rules import NewPartitions, NewTopic
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.storage.metadata import Put
from tests.support.fakes import FakeBroker, FakeLog
from tests.support.memory_cluster import MemoryCluster, catch_up

ASSIGNED = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 2, 1], 3: [2, 3, 1], 4: [1, 2, 3]}


class Replicated:
    """Broker 1 of three, and a topic: it leads 0, follows 1 and 2, has no 3, and only it has 4.

    Attributes:
        created: what was reported of the new topic.
        told: what has been reported since then.
    """

    def __init__(self, name: str = "a") -> None:
        self.cluster = MemoryCluster(1, 2, 3)
        self.broker = self.cluster.broker(1)
        self.told: list[tuple[str, int]] = []
        topics = self.broker.topics
        topics.when_gained(lambda _, number: self.told.append(("gained", number)))
        topics.when_opened(lambda log: self.told.append(("opened", log.partition)))
        topics.when_lost(lambda _, number: self.told.append(("lost", number)))
        topics.when_followed(lambda log, _, __: self.told.append(("followed", log.partition)))
        topics.when_unfollowed(lambda log, _, __: self.told.append(("unfollowed", log.partition)))
        self.topic: Topic = asyncio.run(topics.create(NewTopic(name, assignments=ASSIGNED)))
        self.created = list(self.told)
        self.change(3, replicas=(2,), isr=(2,))
        self.change(4, replicas=(1,), isr=(1,))
        self.told.clear()
        self.broker.released_logs.clear()
        self.broker.removed_folders.clear()

    def state(self, number: int) -> PartitionState:
        state = self.broker.metadata.image.state(self.topic.topic_id, number)
        assert state is not None
        return state

    def change(self, number: int, **changed: Any) -> None:
        """Store another state, and follow it."""
        state = self.state(number)._replace(**changed)
        key = records.partition_key(self.topic.topic_id, number)
        self.cluster.store.transact([], [Put(key, records.partition_value(state))])
        catch_up(self.broker)
        self.told.clear()
        asyncio.run(self.broker.topics.follow(self.topic.name, (number,)))

    def elect(self, number: int, leader: int) -> None:
        epoch = self.state(number).leader_epoch + 1
        brokers = self.broker.metadata.image.brokers
        broker_epoch = NO_EPOCH if leader == NO_LEADER else brokers[leader].epoch
        self.change(number, leader=leader, leader_epoch=epoch, broker_epoch=broker_epoch)

    def log(self, number: int) -> FakeLog:
        log: Any = self.topic.log(number) or self.topic.followed[number]
        return log


@pytest.fixture
def replicated() -> Replicated:
    return Replicated()


def numbers(topic: Topic) -> tuple[list[int], list[int]]:
    """Return the partitions that are led, and those that are followed."""
    return [log.partition for log in topic.led_logs], sorted(topic.followed)


def test_a_new_topic_has_logs_of_all_partitions_of_which_this_broker_is_a_replica(
    replicated: Replicated,
) -> None:
    assert numbers(replicated.topic) == ([0, 4], [1, 2])
    assert replicated.created == [("followed", 1), ("followed", 2), ("followed", 3)]
    assert [replicated.log(each).is_follower for each in (0, 1, 2, 4)] == [False, True, True, False]
    assert replicated.log(0).isr == [1, 2, 3]


def test_clients_are_not_served_from_a_log_that_follows(replicated: Replicated) -> None:
    with pytest.raises(RequestError) as refused:
        log_of(replicated.topic, 1)

    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicated.broker.table.topics["a"][1][1] is None


def test_logs_that_follow_are_opened_at_a_start(replicated: Replicated) -> None:
    after = replicated.cluster.broker(1)

    loading = after.topics.load()

    topic = after.topics.get("a")
    assert topic is not None
    assert numbers(topic) == ([0, 4], [1, 2])
    assert sorted(log.partition for log in loading) == [0, 1, 2, 4]


def test_added_partitions_are_followed(replicated: Replicated) -> None:
    replicated.told.clear()
    new = NewPartitions(7, [[1, 2, 3], [3, 2, 1]])

    asyncio.run(replicated.broker.topics.add_partitions(replicated.topic, new))

    assert numbers(replicated.topic) == ([0, 4, 5], [1, 2, 6])
    assert replicated.told == [("followed", 6)]


def test_a_log_that_has_followed_leads_in_place(replicated: Replicated) -> None:
    log = replicated.log(1)

    replicated.elect(1, 1)

    assert replicated.topic.log(1) is log
    assert (log.is_follower, log.leader_epoch) == (False, 1)
    assert replicated.told == [("unfollowed", 1), ("opened", 1)]
    assert replicated.broker.table.topics["a"][1][1] is log


def test_a_log_that_has_led_follows_in_place(replicated: Replicated) -> None:
    log = replicated.log(0)

    replicated.elect(0, 2)

    assert replicated.topic.followed[0] is log
    assert (log.is_follower, log.known_epoch) == (True, 1)
    assert replicated.told == [("lost", 0), ("followed", 0)]
    assert (replicated.broker.left_logs, replicated.broker.stopped_logs) == ([log], [])
    assert replicated.broker.table.topics["a"][1][0] is None


def test_a_log_follows_in_every_epoch_of_others(replicated: Replicated) -> None:
    replicated.elect(1, 3)
    assert (replicated.log(1).known_epoch, replicated.told) == (1, [("followed", 1)])

    replicated.change(1, isr=(3, 1))
    assert replicated.told == []


def test_a_leader_hands_over_once_its_successor_has_everything(replicated: Replicated) -> None:
    log = replicated.log(0)

    replicated.change(0, successor=2)

    assert replicated.broker.stopped_logs == [log]
    assert log.is_follower
    assert replicated.topic.log(0) is None


def test_a_leader_whose_successor_is_gone_leads_again_in_the_same_epoch(
    replicated: Replicated,
) -> None:
    replicated.change(0, successor=2)

    replicated.change(0, successor=NO_LEADER)

    log = replicated.log(0)
    assert (log.is_follower, log.leader_epoch) == (False, 0)
    assert replicated.told == [("unfollowed", 0), ("opened", 0)]


def test_a_leader_whose_epoch_is_raised_leads_on_and_nobody_is_told(
    replicated: Replicated,
) -> None:
    log = replicated.log(0)

    replicated.change(0, leader_epoch=1, replicas=(1, 2), isr=(1, 2))

    assert replicated.topic.log(0) is log
    assert (log.is_follower, log.known_epoch, log.isr) == (False, 1, [1, 2])
    assert (replicated.told, replicated.broker.stopped_logs) == ([], [])


def test_a_leader_hands_over_in_the_epoch_in_which_its_replicas_ask(replicated: Replicated) -> None:
    log = replicated.log(0)

    replicated.change(0, leader_epoch=1, replicas=(1, 2), isr=(1, 2), successor=2)

    assert replicated.broker.stopped_logs == [log]
    assert (log.leader_epoch, log.isr) == (1, [1, 2])


def test_a_leader_learns_of_its_isr_and_of_whoever_is_being_added(replicated: Replicated) -> None:
    log = replicated.log(0)
    replicated.change(0, isr=(1,))
    assert (log.isr, log.committed) == ([1], 1)

    leadership: Any = replicated.broker.leadership
    leadership.pending = (3,)
    replicated.change(0, partition_epoch=4)

    assert (log.isr, log.committed) == ([1, 3], 1)
    assert replicated.told == []


def test_a_fenced_leader_follows_and_a_single_replica_is_closed(replicated: Replicated) -> None:
    leadership: Any = replicated.broker.leadership
    leadership.is_member = False
    single = replicated.log(4)

    asyncio.run(replicated.broker.topics.follow("a"))

    assert numbers(replicated.topic) == ([], [0, 1, 2])
    assert replicated.broker.released_logs == [single]
    assert replicated.broker.removed_folders == []


def test_a_replica_that_was_moved_away_is_closed_and_removed(replicated: Replicated) -> None:
    log = replicated.log(1)

    replicated.change(1, replicas=(2, 3), isr=(2, 3))

    assert numbers(replicated.topic) == ([0, 4], [2])
    assert replicated.told == [("unfollowed", 1)]
    assert replicated.broker.released_logs == [log]
    assert replicated.broker.removed_folders == [("a", 1)]


def test_a_replica_that_was_moved_here_is_opened_and_followed(replicated: Replicated) -> None:
    replicated.change(3, replicas=(2, 1))

    assert numbers(replicated.topic) == ([0, 4], [1, 2, 3])


def test_a_log_that_follows_with_an_epoch_above_the_stores_is_not_copied(
    replicated: Replicated,
) -> None:
    log = replicated.log(1)
    log.leader_epoch = 9

    replicated.elect(1, 3)

    assert log.is_offline
    assert replicated.told == []


def test_the_logs_of_a_deleted_topic_are_followed_no_more(replicated: Replicated) -> None:
    replicated.told.clear()
    logs: list[Any] = replicated.topic.held_logs

    asyncio.run(replicated.broker.topics.delete(replicated.topic))

    assert replicated.told == [("unfollowed", 1), ("unfollowed", 2)]
    assert replicated.broker.deleted_logs == logs


def test_configurations_reach_logs_that_follow(replicated: Replicated) -> None:
    change = {"min.insync.replicas": "2"}

    asyncio.run(replicated.broker.topics.alter_config(replicated.topic, lambda _: change))

    assert [replicated.log(each).config.integer("min.insync.replicas") for each in (0, 1)] == [2, 2]


def test_a_log_that_is_being_truncated_leads_when_that_has_ended(replicated: Replicated) -> None:
    log, broker = replicated.log(1), replicated.broker

    async def elect_meanwhile() -> tuple[bool, bool]:
        ended = asyncio.Event()

        async def until_loaded(logs: object) -> None:
            await ended.wait()

        broker.until_loaded = until_loaded  # type: ignore[method-assign]
        log.is_loading = True
        state = replicated.state(1)._replace(
            leader=1, leader_epoch=1, broker_epoch=broker.metadata.image.brokers[1].epoch
        )
        key = records.partition_key(replicated.topic.topic_id, 1)
        replicated.cluster.store.transact([], [Put(key, records.partition_value(state))])
        catch_up(broker)
        await broker.topics.follow("a", (1,))
        before = replicated.topic.log(1) is log
        log.is_loading = False
        ended.set()
        for _ in range(10):
            await asyncio.sleep(0)
        return before, replicated.topic.log(1) is log

    assert asyncio.run(elect_meanwhile()) == (False, True)


@pytest.mark.parametrize("number", [0, 1])
def test_a_role_whose_end_has_failed_and_is_not_wanted_any_more_is_reported_again(
    replicated: Replicated, number: int
) -> None:
    """Otherwise nobody would coordinate the partition any more, or copy it."""
    broker = replicated.broker
    logs: Any = broker.logs
    state = replicated.state(number)
    release = logs.release

    async def fail(_log: object) -> None:
        raise StorageError("no")

    logs.release = fail
    with pytest.raises(StorageError):
        replicated.change(number, replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=1)
    assert replicated.told == [("lost" if number == 0 else "unfollowed", number)]
    logs.release = release

    replicated.change(number, **state._replace(leader_epoch=2)._asdict())

    assert replicated.told == [("opened" if number == 0 else "followed", number)]
    assert broker.released_logs == []


def test_a_log_that_leads_no_more_follows_although_others_have_not_left_its_files(
    replicated: Replicated,
) -> None:
    logs: Any = replicated.broker.logs

    async def fail(_log: object) -> None:
        raise StorageError("no")

    logs.leave = fail
    with pytest.raises(StorageError):
        replicated.elect(0, 2)

    assert replicated.told == [("lost", 0), ("followed", 0)]
    assert replicated.topic.followed[0].known_epoch == 1


def test_coordinators_hear_of_their_partitions_in_place() -> None:
    replicated = Replicated("__consumer_offsets")

    replicated.elect(1, 1)
    assert ("opened", 1) in replicated.told

    replicated.elect(1, 2)
    assert replicated.told == [("lost", 1), ("followed", 1)]


def test_a_broker_of_fakes_that_stands_alone_leads_everything() -> None:
    topic = FakeBroker().create("a", 2)

    assert numbers(topic) == ([0, 1], [])
