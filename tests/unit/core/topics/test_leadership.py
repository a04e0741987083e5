"""A broker that leads some partitions has the logs of these, and follows changes of leaders."""

import asyncio
from collections.abc import Awaitable, Mapping

import pytest

from broker.core.topics.interfaces import LeadsAll
from broker.core.topics.lookup import log_of
from broker.core.topics.roles import Role
from broker.core.topics.rules import NewPartitions, NewTopic
from broker.core.topics.topic import Topic
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import LOGS_CONFIGURED_PER_STEP
from tests.support.fakes import FakeBroker, FakeLog, FakePartitionLogs, FakeStore
from tests.support.large_broker import TurnLoop
from tests.support.memory_cluster import MemoryCluster


class Leads(LeadsAll):
    """The leader epochs that a test sets, by partition."""

    def __init__(self, epochs: Mapping[int, int]) -> None:
        self.epochs = dict(epochs)

    def role(self, _topic_id: bytes, partition: int, /) -> Role | None:
        epoch = self.epochs.get(partition)
        return None if epoch is None else Role(True, epoch, 1, (1,), (1,))


class Counted(Leads):
    """Leads the same partitions of all topics; counts how often it was asked."""

    asked = 0

    def role(self, topic_id: bytes, partition: int, /) -> Role | None:
        self.asked += 1
        return super().role(topic_id, partition)


def broker_that_leads(epochs: Mapping[int, int], store: FakeStore | None = None) -> FakeBroker:
    return FakeBroker(store=store, leadership=Leads(epochs))


def led(topic: Topic) -> list[int]:
    """Return the partitions of which there are logs."""
    return [log.partition for log in topic.led_logs]


def follow(broker: FakeBroker, epochs: Mapping[int, int]) -> None:
    """Let leaders change."""
    assert isinstance(broker.leadership, Leads)
    broker.leadership.epochs = dict(epochs)
    asyncio.run(broker.topics.follow("a"))


def refusal(topic: Topic, partition: int) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        log_of(topic, partition)
    return caught.value.code


def test_only_led_partitions_of_a_new_topic_have_logs() -> None:
    broker = broker_that_leads({0: 0, 2: 0})

    topic = broker.create("a", 4)

    assert (topic.partition_count, led(topic)) == (4, [0, 2])
    assert broker.table.topics["a"][1] == [topic.logs[0], None, topic.logs[2], None]
    assert [refusal(topic, number) for number in (1, 4)] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_broker_that_leads_nothing_of_a_new_topic_does_not_wait_for_its_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = broker_that_leads({})
    monkeypatch.delattr(FakePartitionLogs, "open_topic")

    topic = broker.create("a", 2)

    assert (topic.partition_count, led(topic)) == (2, [])


def test_only_led_partitions_are_loaded_at_a_start() -> None:
    store = FakeStore()
    broker_that_leads({}, store).create("a", 3)
    after = broker_that_leads({1: 0}, store)

    loading = after.topics.load()

    assert [log.partition for log in loading] == [1]


def test_added_partitions_have_logs_where_they_are_led() -> None:
    broker = broker_that_leads({0: 0, 3: 0})
    topic = broker.create("a", 1)

    asyncio.run(broker.topics.add_partitions(topic, NewPartitions(4)))

    assert (topic.partition_count, led(topic)) == (4, [0, 3])


def test_partitions_that_were_added_in_a_cluster_stay_when_this_broker_cannot_open_them() -> None:
    broker = MemoryCluster(1, 2).broker(1)
    topic = broker.create("a", 1)
    before = broker.metadata.image.revision
    broker.broken_partition = 1

    with pytest.raises(RequestError) as caught:
        asyncio.run(broker.topics.add_partitions(topic, NewPartitions(3, [[1], [2]])))

    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    stored = broker.metadata.image.topic("a")
    assert stored is not None
    assert (stored.record.partitions, broker.metadata.image.revision) == (3, before + 1)


def test_a_log_has_the_epoch_of_its_leaders_election() -> None:
    broker = broker_that_leads({0: 7})
    topic = broker.create("a")
    assert topic.led_logs[0].leader_epoch == 7

    follow(broker, {0: 9})

    assert topic.led_logs[0].leader_epoch == 9


def test_a_log_is_led_under_a_new_registration_once_it_was_elected_under_it() -> None:
    broker = broker_that_leads({0: 7})
    log = broker.create("a").led_logs[0]
    log.is_led = False  # the registration is another one now

    follow(broker, {0: 8})

    assert (log.is_led, log.leader_epoch) == (True, 8)


def test_a_gained_partition_is_loaded_with_its_epoch_and_reported() -> None:
    broker = broker_that_leads({})
    topic = broker.create("a", 2)
    gained: list[tuple[str, int]] = []
    broker.topics.when_gained(lambda name, number: gained.append((name, number)))

    follow(broker, {1: 3})

    assert gained == [("a", 1)]
    assert broker.table.topics["a"][1] is topic.logs
    assert log_of(topic, 1).leader_epoch == 3


def test_a_lost_partition_is_reported_and_released() -> None:
    broker = broker_that_leads({0: 0, 1: 0})
    topic = broker.create("a", 2)
    log = topic.logs[0]
    lost: list[tuple[str, int]] = []
    broker.topics.when_lost(lambda name, number: lost.append((name, number)))

    follow(broker, {1: 0})

    assert lost == [("a", 0)]
    assert broker.released_logs == [log]
    assert refusal(topic, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led(topic) == [1]


def test_a_log_with_an_epoch_above_the_stores_is_not_served() -> None:
    broker = broker_that_leads({0: 5})
    topic = broker.create("a")

    follow(broker, {0: 4})

    assert refusal(topic, 0) is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_logs_of_a_deleted_topic_are_deleted_where_they_are() -> None:
    broker = broker_that_leads({1: 0})
    topic = broker.create("a", 3)
    logs: list[FakeLog] = [*topic.led_logs]

    asyncio.run(broker.topics.delete(topic))

    assert broker.deleted_logs == logs
    assert broker.folders.put_aside == [("a", [0, 1, 2])]


def test_a_topic_that_another_broker_has_created_appears_and_disappears() -> None:
    store = FakeStore()
    other, broker = FakeBroker(store=store), broker_that_leads({0: 0}, store)
    topic = other.create("a", 2)
    broker.reload()
    asyncio.run(broker.topics.follow("a"))
    known = broker.topics.get("a")
    assert known is not None
    assert (known.topic_id, led(known)) == (topic.topic_id, [0])

    asyncio.run(other.topics.delete(topic))
    broker.reload()
    asyncio.run(broker.topics.follow("a"))

    assert broker.topics.get("a") is None


def test_a_topic_that_another_broker_has_created_is_found_before_it_is_registered() -> None:
    store = FakeStore()
    other, broker = FakeBroker(store=store), broker_that_leads({0: 0}, store)
    topic = other.create("a", 2)
    broker.reload()
    assert broker.topics.get("a") is None

    found = asyncio.run(broker.topics.get_or_create("a"))

    assert (found.topic_id, led(found)) == (topic.topic_id, [0])


def test_a_deletion_is_reported_where_no_partition_was_led() -> None:
    """The offsets that groups have committed in it are here, if their coordinator is."""
    store = FakeStore()
    other, broker = FakeBroker(store=store), broker_that_leads({}, store)
    deleted: list[str] = []
    broker.topics.when_deleted(deleted.append)
    topic = other.create("a", 2)
    broker.reload()
    asyncio.run(broker.topics.follow("a"))

    asyncio.run(other.topics.delete(topic))
    broker.reload()
    asyncio.run(broker.topics.follow("a"))

    assert deleted == ["a"]


def test_a_topic_created_again_elsewhere_replaces_the_deleted_one() -> None:
    store = FakeStore()
    other, broker = FakeBroker(store=store), FakeBroker(store=store)
    asyncio.run(other.topics.delete(other.create("a")))
    new = other.create("a", 2)
    broker.reload()
    asyncio.run(broker.topics.follow("a"))
    asyncio.run(other.topics.delete(new))
    newest = asyncio.run(other.topics.create(NewTopic("a", 3)))
    broker.reload()

    asyncio.run(broker.topics.follow("a"))

    known = broker.topics.get("a")
    assert known is not None
    assert (known.topic_id, known.partition_count) == (newest.topic_id, 3)


def test_lost_partitions_are_released_together_and_not_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their last writes share syncs, so a broker that loses all of them is soon done."""
    monkeypatch.setattr(limits, "LOGS_RELEASED_AT_ONCE", 3)
    broker = broker_that_leads(dict.fromkeys(range(7), 0))
    topic = broker.create("a", 7)
    releasing: list[int] = []

    async def release(log: FakeLog) -> None:
        broker.released_logs.append(log)
        await asyncio.sleep(0)
        releasing.append(len(broker.released_logs))

    monkeypatch.setattr(broker.topics._local._logs, "release", release)
    follow(broker, {})

    assert releasing == [3, 3, 3, 6, 6, 6, 7]
    assert (led(topic), len(broker.released_logs)) == ([], 7)


def test_a_log_that_cannot_be_released_is_reported_once_the_others_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever follows the topic next would release them a second time."""
    broker = broker_that_leads({0: 0, 1: 0})
    topic = broker.create("a", 2)

    async def release(log: FakeLog) -> None:
        if log.partition == 0:
            raise StorageError("planted")
        for _ in range(10):
            await asyncio.sleep(0)

    monkeypatch.setattr(broker.topics._local._logs, "release", release)

    async def lose_all() -> list[int]:
        assert isinstance(broker.leadership, Leads)
        broker.leadership.epochs = {}
        with pytest.raises(StorageError):
            await broker.topics.follow("a")
        return led(topic)

    assert asyncio.run(lose_all()) == [0]


def test_many_partitions_are_opened_gained_and_lost_in_steps() -> None:
    many = 20 * LOGS_CONFIGURED_PER_STEP
    leads = Counted(dict.fromkeys(range(0, many, 2), 0))
    gained: list[int] = []
    loop = TurnLoop(lambda: leads.asked + len(gained))

    async def longest_turn(work: Awaitable[object]) -> int:
        loop.turns.clear()
        await work
        await asyncio.sleep(0)  # the turn of the last step is recorded
        return max(loop.turns)

    async def change_leaders() -> list[int]:
        broker = FakeBroker(leadership=leads)
        broker.topics.when_gained(lambda _, number: gained.append(number))
        longest = [await longest_turn(broker.topics.create(NewTopic("a", many)))]
        for epochs in (dict.fromkeys(range(many), 1), {}):
            leads.epochs = epochs
            longest.append(await longest_turn(broker.topics.follow("a")))
        return longest

    try:
        longest = loop.run_until_complete(change_leaders())
    finally:
        loop.close()

    assert gained == list(range(1, many, 2))
    # Each log that is opened or gained is asked for its epoch, too.
    assert max(longest) <= 2 * LOGS_CONFIGURED_PER_STEP


def test_only_the_partitions_that_have_changed_are_looked_at() -> None:
    leads = Counted({0: 0, 1: 0})
    broker = FakeBroker(leadership=leads)
    topic = broker.create("a", 100)
    leads.epochs = {1: 0, 2: 1}
    before = leads.asked

    asyncio.run(broker.topics.follow("a", [0, 2, 100]))

    assert led(topic) == [1, 2]
    # Both at first, the lost one before it ends, both after that, and the gained one's epoch.
    assert leads.asked - before <= 6


def test_a_partition_whose_folder_another_process_has_is_refused_until_it_is_free() -> None:
    broker = broker_that_leads({})
    topic = broker.create("a", 2)
    busy: list[str] = []
    broker.topics.when_busy(busy.append)
    broker.busy_folders = {("a", 1)}

    follow(broker, {0: 1, 1: 1})
    assert (led(topic), busy) == ([0], ["a"])
    assert refusal(topic, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.busy_folders = set()
    follow(broker, {0: 1, 1: 1})

    assert (led(topic), busy) == ([0, 1], ["a"])


def test_a_new_topic_is_created_although_another_process_has_a_folder_of_its_name() -> None:
    broker = broker_that_leads({0: 1, 1: 1})
    busy: list[str] = []
    broker.topics.when_busy(busy.append)
    broker.busy_folders = {("a", 0)}

    assert led(broker.create("a", 2)) == [1]
    assert busy == ["a"]


def test_folders_of_a_deleted_topic_are_free_for_other_processes_after_their_renaming() -> None:
    broker = broker_that_leads({0: 1})
    topic = broker.create("a", 2)

    asyncio.run(broker.topics.delete(topic))

    assert broker.freed_folders == [("a", 0), ("a", 1)]


def test_an_internal_log_that_another_broker_has_filled_is_reported_when_its_topic_appears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FakeStore()
    other, broker = FakeBroker(store=store), broker_that_leads({0: 1, 1: 1}, store)
    other.create("__transaction_state", 2)
    broker.reload()
    opened: list[int] = []
    broker.topics.when_opened(lambda log: opened.append(log.partition))
    monkeypatch.setattr(
        FakeLog, "log_end_offset", property(lambda log: log.partition), raising=False
    )

    asyncio.run(broker.topics.follow("__transaction_state"))

    assert opened == [1]
