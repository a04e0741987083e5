"""The topics of a broker, whose roles, logs and names change in any order, and at the same time.

Broker 1 of three follows what a store says, slowly: logs are loaded, cut, handed over and closed in
tasks, some of which fail. After each step a log has one place, and whoever was told of a change was
told of its end, too. When nothing changes any more, everything is what the store says.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from broker.core.cluster import records
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState
from broker.core.topics.deletion import Deletions
from broker.core.topics.local_topics import LocalTopics
from broker.core.topics.roles import Role
from broker.core.topics.rules import NewPartitions, NewTopic
from broker.core.topics.topic import Topic
from broker.core.topics.topics import Topics
from broker.model.errors import RequestError, StorageError
from broker.model.topic_config import TopicConfig
from broker.storage.metadata import Put
from tests.support.fakes import FakeBroker, FakeFolders, FakeLog, FakePartitionLogs, FakeTable
from tests.support.memory_cluster import Led, MemoryCluster

SELF = 1
NAMES = ("a", "b", "__consumer_offsets")
PARTITIONS = 3
BATCHES = 12
STEPS = 12  # of each batch, at the same time
RUNS = 20
_Item = tuple[bytes, int]


class _Log(FakeLog):
    """A log that refuses what the native one refuses."""

    is_closed = False

    def lead(
        self, epoch: int, self_id: int, replicas: list[int], isr: list[int], committed: int
    ) -> None:
        assert not self.is_closed
        assert not self.is_loading_in_thread, "its files belong to a thread"
        assert epoch >= max(self.known_epoch, self.leader_epoch)
        super().lead(epoch, self_id, replicas, isr, committed)

    def follow(self, epoch: int) -> None:
        assert not self.is_closed
        assert not self.is_loading_in_thread, "its files belong to a thread"
        assert epoch >= self.known_epoch
        super().follow(epoch)

    is_loading_in_thread = False


class _Logs(FakePartitionLogs):
    """Logs whose changes take a few turns, and fail now and then."""

    def __init__(self, broker: FakeBroker, choices: Random) -> None:
        super().__init__(broker)
        self._choices = choices
        self.may_fail = True
        self.topics: LocalTopics | None = None
        self.opened: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.errors: list[BaseException | None] = []  # of tasks
        self.when_ready: Callable[[Any], None] = lambda _: None

    async def pause(self) -> None:
        for _ in range(self._choices.randrange(6)):
            await asyncio.sleep(0)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.errors.append(task.exception())

    def _fail_sometimes(self) -> None:
        if self.may_fail and self._choices.random() < 0.1:
            raise StorageError("the disk says no")

    def _made(
        self, name: str, topic_id: bytes, numbers: Iterable[int], config: TopicConfig
    ) -> list[Any]:
        logs: list[Any] = [_Log(name, topic_id, each, config) for each in numbers]
        places = {(each.topic, each.partition) for each in self.opened}
        for log in logs:
            assert (log.topic, log.partition) not in places, "it is open already"
            log.known_epoch = -1
        self.opened |= set(logs)
        return logs

    async def open_topic(self, *args: Any) -> list[Any]:
        await self.pause()
        self._fail_sometimes()
        return self._made(*args)

    def announce_topic(self, *args: Any) -> list[Any]:
        logs = self._made(*args)
        for log in logs:
            log.is_loading = log.is_loading_in_thread = True
        return logs

    def load(self, logs: Iterable[Any]) -> None:
        for log in logs:
            self.begin(self._load(log))

    async def _load(self, log: Any) -> None:
        await self.pause()
        assert self.topics is not None
        log.is_loading_in_thread = False
        self.topics.prepare(log)
        log.is_loading = False
        self.topics.roles.is_ready(log)
        self.when_ready(log)

    async def cut(self, log: Any) -> None:
        """Truncate a log, as long as it follows."""
        await self.pause()
        if log.is_loading or log.is_closed or not log.is_follower:
            return
        log.is_loading = log.is_loading_in_thread = True
        await self.pause()
        assert not log.is_closed, "closed while a thread had it"
        log.is_loading = log.is_loading_in_thread = False

    async def until_loaded(self, logs: Sequence[Any]) -> None:
        while any(each.is_loading for each in logs):
            await asyncio.sleep(0)

    async def release(self, log: Any) -> None:
        await self.until_loaded([log])
        await self.leave(log)
        await self.until_loaded([log])
        log.is_loading = True
        await self.pause()
        self._close(log)
        log.is_loading = False

    def _close(self, log: Any) -> None:
        assert not log.is_loading_in_thread
        self.opened.remove(log)
        log.is_closed = True

    async def stop_accepting(self, log: Any) -> None:
        assert not log.is_closed
        await self.pause()

    async def leave(self, log: Any) -> None:
        assert not log.is_closed
        await self.pause()
        self._fail_sometimes()

    async def remove_moved(self, topic: str, topic_id: bytes, number: int) -> None:
        await self.pause()
        await super().remove_moved(topic, topic_id, number)

    def configure(self, log: Any, config: TopicConfig) -> None:
        assert not log.is_closed
        assert not log.is_loading_in_thread
        super().configure(log, config)

    def delete(self, log: Any) -> None:
        self._close(log)

    @property
    def change_count(self) -> int:
        return 0


class _Told:
    """Checks what is reported, and keeps what is true by it."""

    def __init__(self, topics: LocalTopics) -> None:
        self._topics = topics
        self.followed: dict[_Item, Any] = {}
        self.lost: set[tuple[str, int]] = set()
        topics.when_followed(self._is_followed)
        topics.when_unfollowed(self._is_unfollowed)
        topics.when_lost(lambda topic, number: self.lost.add((topic, number)))
        topics.when_gained(lambda topic, number: self.lost.discard((topic, number)))
        topics.when_opened(lambda log: self.lost.discard((log.topic, log.partition)))
        topics.when_deleted(self._is_deleted)

    def _is_followed(self, log: Any, topic_id: bytes, number: int) -> None:
        assert self.followed.get((topic_id, number), log) is log, "the other one still follows"
        assert log.is_follower
        assert not log.is_loading
        assert not log.is_closed
        self.followed[topic_id, number] = log

    def _is_unfollowed(self, log: Any, topic_id: bytes, number: int) -> None:
        assert self.followed.get((topic_id, number), log) is log
        assert not log.is_closed
        self.followed.pop((topic_id, number), None)

    def _is_deleted(self, name: str) -> None:
        self.lost = {each for each in self.lost if each[0] != name}


class _Run:
    """One broker and its store."""

    def __init__(self, choices: Random) -> None:
        self.choices = choices
        self.cluster = MemoryCluster(SELF, 2, 3)
        self.parts = self.cluster.parts(SELF)
        self.known: Any = self.parts["known"]
        self.image = self.known.image
        self.leadership: Led = self.parts["leadership"]
        broker = FakeBroker({"node.id": str(SELF)}, **self.parts)
        self.logs = _Logs(broker, choices)
        deletions = Deletions(self.known, broker.io_thread, FakeFolders(), self.parts["placing"])
        self.local = LocalTopics(
            *(broker.config, self.known, FakeTable(), self.logs, deletions, self.leadership)
        )
        self.logs.topics = self.local
        self.told = _Told(self.local)
        self.topics = Topics(self.known, self.local, self.logs, self.parts["placing"])
        self.local.when_busy(self._follow_soon)
        self.known.callbacks.append(self._image_changed)
        self._again: set[str] = set()

    # ---- following, as server/cluster/following.py does ------------------------------------------

    def _image_changed(self, delta: Any) -> None:
        for topic_id, number in delta.partitions:
            if topic_id in self.image.topics:
                self._follow_soon(self.image.topics[topic_id].name, (number,))
        for topic_id in delta.topics:
            if topic_id in self.image.topics:
                self._follow_soon(self.image.topics[topic_id].name)
        for topic_id, topic in delta.deleted_topics.items():
            self._follow_soon(topic.name)
            self.logs.begin(self._follow_deleted(topic_id))

    def _follow_soon(self, name: str, partitions: Collection[int] | None = None) -> None:
        self.logs.begin(self._follow(name, partitions))

    async def _follow(self, name: str, partitions: Collection[int] | None) -> None:
        await self.logs.pause()
        try:
            await self.local.follow(name, partitions)
        except StorageError:
            self._follow_soon(name)

    async def _follow_deleted(self, topic_id: bytes) -> None:
        with suppress(StorageError):
            await self.local.follow_deleted(topic_id)

    # ---- steps -----------------------------------------------------------------------------------

    def step(self) -> None:
        """Change something, and do not wait for what follows."""
        kinds = [self._elect] * 6 + [self._move, self._shrink, self._hand_over, self._lease] * 2
        kinds += [self._cut] * 3 + [self._create] * 6 + [self._delete, self._enlarge, self._alter]
        self.choices.choice(kinds)()

    def _ask(self, work: Coroutine[Any, Any, Any]) -> None:
        async def asked() -> None:
            with suppress(RequestError, StorageError):
                await work

        self.logs.begin(asked())

    def _create(self) -> None:
        assignments = {
            each: self.choices.sample((1, 2, 3), self.choices.choice((1, 2, 3)))
            for each in range(PARTITIONS)
        }
        new = NewTopic(self.choices.choice(NAMES), assignments=assignments)
        self._ask(self.topics.create(new))

    def _some_topic(self) -> Topic | None:
        topics = [self.topics.get(each) for each in sorted(self.topics.names())]
        return self.choices.choice(topics) if topics else None

    def _delete(self) -> None:
        topic = self._some_topic()
        if topic is not None:
            self._ask(self.topics.delete(topic))

    def _enlarge(self) -> None:
        topic = self._some_topic()
        if topic is not None and topic.partition_count < 2 * PARTITIONS:
            new = NewPartitions(topic.partition_count + 1, [self.choices.sample((1, 2, 3), 2)])
            self._ask(self.topics.add_partitions(topic, new))

    def _alter(self) -> None:
        topic = self._some_topic()
        if topic is not None:
            change = {"min.insync.replicas": self.choices.choice("12")}
            self._ask(self.topics.alter_config(topic, lambda _: change))

    def _cut(self) -> None:
        if self.told.followed:
            items = sorted(self.told.followed)
            self.logs.begin(self.logs.cut(self.told.followed[self.choices.choice(items)]))

    def _lease(self) -> None:
        self.leadership.is_member = not self.leadership.is_member
        for name in {*self.topics.names(), *self.image.topic_ids}:
            self._follow_soon(name)

    def _state(self) -> tuple[_Item, PartitionState] | None:
        items = [
            (topic_id, number)
            for topic_id, topic in sorted(self.image.topics.items())
            for number in range(topic.record.partitions)
        ]
        found = [(each, state) for each in items if (state := self.image.state(*each)) is not None]
        return self.choices.choice(found) if found else None

    def _change(self, item: _Item, state: PartitionState) -> None:
        put = Put(records.partition_key(*item), records.partition_value(state))
        self.cluster.store.transact([], [put])
        self.known.catch_up()

    def _elect(self) -> None:
        found = self._state()
        if found is not None:
            item, state = found
            leader = self.choices.choice((*state.isr, SELF, NO_LEADER))
            if leader not in state.isr:
                leader = NO_LEADER
            broker_epoch = NO_EPOCH if leader == NO_LEADER else self.image.brokers[leader].epoch
            self._change(
                item,
                state._replace(
                    leader=leader,
                    leader_epoch=state.leader_epoch + 1,
                    broker_epoch=broker_epoch,
                    successor=NO_LEADER,
                ),
            )

    def _shrink(self) -> None:
        found = self._state()
        if found is not None:
            item, state = found
            needed = {state.leader, state.successor} - {NO_LEADER} or {state.isr[0]}
            isr = [x for x in state.replicas if x in needed or self.choices.random() < 0.6]
            self._change(item, state._replace(isr=tuple(isr)))

    def _move(self) -> None:
        found = self._state()
        if found is not None:
            item, state = found
            replicas = tuple(self.choices.sample((1, 2, 3), self.choices.choice((1, 2, 3))))
            leader = replicas[0]
            self._change(
                item,
                state._replace(
                    replicas=replicas,
                    isr=replicas,
                    leader=leader,
                    leader_epoch=state.leader_epoch + 1,
                    broker_epoch=self.image.brokers[leader].epoch,
                    successor=NO_LEADER,
                ),
            )

    def _hand_over(self) -> None:
        found = self._state()
        if found is not None:
            item, state = found
            others = [each for each in state.isr if each != state.leader]
            if others and state.leader != NO_LEADER:
                self._change(item, state._replace(successor=self.choices.choice(others)))

    # ---- checks ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds at any time."""
        for error in filter(None, self.logs.errors):
            raise error
        for topic in self._held():
            led = {number for number, log in enumerate(topic.logs) if log is not None}
            assert not led & topic.followed.keys(), "a log has one place"
            logs: list[Any] = topic.held_logs
            for log in logs:
                assert log.topic_id == topic.topic_id

    def check_all(self) -> None:
        """Check what holds when everything has followed."""
        self.check()
        assert set(self.topics.names()) == set(self.image.topic_ids)
        held: set[Any] = set()
        followed: set[_Item] = set()
        for topic in self._held():
            assert topic.topic_id == self.image.topic_ids[topic.name]
            assert topic.partition_count == self.image.topics[topic.topic_id].record.partitions
            for number in range(topic.partition_count):
                role = self.leadership.role(topic.topic_id, number)
                self._check_role(topic, number, role)
                if role is not None and not role.leads:
                    followed.add((topic.topic_id, number))
            held |= set(topic.held_logs)
        assert self.logs.opened == held, "no other log is open"
        assert self.told.followed.keys() == followed
        assert not self.local.roles._awaited
        assert not self.local.roles._ending

    def _held(self) -> Iterable[Topic]:
        return self.local.registry.in_any_order()

    def _check_role(self, topic: Topic, number: int, role: Role | None) -> None:
        led: Any = topic.logs[number]
        follows: Any = topic.followed.get(number)
        assert (led is not None) == (role is not None and role.leads)
        assert (follows is not None) == (role is not None and not role.leads)
        log = led or follows
        if role is None or log is None:
            return
        assert not log.is_loading
        assert not log.is_closed
        assert log.is_follower == (not role.leads)
        assert log.known_epoch == role.epoch
        if role.leads:
            assert (log.isr, log.committed) == (list(role.isr), role.committed)
            assert (topic.name, number) not in self.told.lost
        else:
            assert self.told.followed[topic.topic_id, number] is log
        assert log.config is topic.config or log.config.has_values_of(topic.config)

    async def run(self) -> None:
        """Change everything in batches, and wait after each until all has followed."""
        for _ in range(BATCHES):
            self.logs.may_fail = True
            for _ in range(self.choices.randrange(1, STEPS)):
                self.step()
                await self.logs.pause()
                self.check()
            self.logs.may_fail = False
            if not self.leadership.is_member and self.choices.random() < 0.7:
                self._lease()
            while self.logs.tasks:
                await asyncio.sleep(0)
            while self.local.roles._awaited:
                await asyncio.sleep(0)
            self.check_all()


def test_whatever_changes_at_the_same_time_each_log_gets_its_role_and_all_hear_of_it(
    choices: Random,
) -> None:
    for _ in range(RUNS):
        seed = choices.getrandbits(32)
        try:
            asyncio.run(asyncio.wait_for(_Run(Random(seed)).run(), 60))
        except BaseException as error:
            error.add_note(f"Random({seed})")
            raise
