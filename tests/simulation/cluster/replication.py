"""Replication between simulated brokers: the driver of one process's `IsrChanges`.

A follower asks each leader for all of its partitions at once, every FETCH_MS unless it is slow; a
request and its answer take some ms each, and one that was sent before its sender died may arrive
after that. What a leader's logs report reaches the machine some ms later.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Protocol

from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.records import NO_LEADER
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.cluster.writes import Write
from broker.core.replica_ends import End
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.replicas import (
    Answer,
    Disk,
    Item,
    Leading,
    Request,
    common,
)

FETCH_MS = 120
LAG_MS = 1_500
PER_ANSWER = 6  # entries of a partition


class Peer(Protocol):
    """The replication of another process."""

    broker_id: int
    process: Process

    def answer(self, requests: list[Request]) -> list[Answer]:
        """Answer a follower."""

    def ends(self, items: Sequence[Item]) -> dict[Item, End]:
        """Return where its logs end."""


class Context(Protocol):
    """What a process tells its replication."""

    broker_id: int
    image: ClusterImage
    process: Process

    def serves(self, item: Item) -> bool:
        """Return whether it believes at this moment that it serves a partition."""


class Replication:
    """The replicas of one process."""

    def __init__(
        self,
        rng: Random,
        context: Context,
        disk: Disk,
        settings: TopicSettings,
        write: Callable[[IsrChanges, Write], None],
        acknowledged: Callable[[Item, Leading], None],
    ) -> None:
        self.broker_id = context.broker_id
        self.process = context.process
        self.peers: Callable[[], Iterable[Peer]] = lambda: ()
        self.joins: Callable[[int], None] = lambda _: None  # called with whoever has caught up
        self.machine: IsrChanges | None = None
        self._rng = rng
        self._context = context
        self._disk = disk
        self._settings = settings
        self._write = write
        self._acknowledged = acknowledged
        self._epoch = 0
        self._leading: dict[Item, Leading] = {}
        self._slow_until_ms = 0

    def be_slow(self, duration_ms: int) -> None:
        """Ask no leader for a while."""
        self._slow_until_ms = self.process.now_ms() + duration_ms

    def start(self) -> None:
        self.process.after(self._rng.randrange(FETCH_MS), self._fetch)

    def begin(self, epoch: int) -> None:
        """Begin the work of one incarnation; 0: there is none."""
        self._epoch = epoch
        self._leading.clear()
        self.machine = None
        if epoch:
            self.machine = IsrChanges(
                self._context.image, (self.broker_id, epoch), self._settings, self._is_in_sync
            )

    # ---- as leader
    # ---------------------------------------------------------------------------------------------

    def opened(self, item: Item, leader_epoch: int) -> None:
        replica = self._disk.replica(item)
        leading = Leading(self.broker_id, replica, leader_epoch, self.process.now_ms())
        self._leading[item] = leading
        self._set_isr(item)

    def closed(self, item: Item) -> None:
        self._leading.pop(item, None)

    def produce(self, item: Item, record: int) -> None:
        leading = self._leading.get(item)
        if leading is not None:
            leading.replica.append([(leading.leader_epoch, record)], 0)
            self._advance(item)

    def is_replicated(self, item: Item) -> bool:
        """Return whether everything of a partition that this process leads is acknowledged."""
        leading = self._leading.get(item)
        return leading is not None and leading.watermark == len(leading.replica.entries)

    def answer(self, requests: list[Request]) -> list[Answer]:
        """Answer a follower."""
        answers = []
        brokers = self._context.image.brokers
        for request in requests:
            item = request.item
            leading, state = self._leading.get(item), self._context.image.state(*item)
            broker = brokers.get(request.replica_id)
            if (
                leading is None
                or state is None
                or leading.leader_epoch != request.leader_epoch
                or request.replica_id not in state.replicas
                or broker is None
                or broker.epoch != request.replica_epoch
            ):
                continue
            end = common(leading.replica.entries, request.log)
            if end == len(request.log):
                if leading.note(request, end, self.process.now_ms()):
                    caught_up = partial(self._caught_up, request)
                    self.process.after(self._rng.choice((0, 0, 2, 40)), caught_up)
                self._advance(item)
            entries = leading.replica.entries[end : end + PER_ANSWER]
            answers.append(
                Answer(
                    item,
                    request.leader_epoch,
                    request.version,
                    end,
                    entries,
                    leading.watermark,
                )
            )
        return answers

    def _caught_up(self, request: Request) -> None:
        if self.machine is not None:
            self.machine.caught_up(request.item, request.replica_id, request.replica_epoch)
            self.work()
            self.joins(request.replica_id)

    def _is_in_sync(self, item: Item, replica_id: int, epoch: int) -> bool:
        leading = self._leading.get(item)
        return leading is not None and leading.is_in_sync(replica_id, epoch)

    def _set_isr(self, item: Item) -> None:
        leading, machine = self._leading.get(item), self.machine
        if leading is not None and machine is not None:
            leading.set_isr(machine.maximal(item), machine.committed(item))
            self._advance(item)

    def _advance(self, item: Item) -> None:
        leading, state = self._leading[item], self._context.image.state(*item)
        if state is not None and self._context.serves(item):
            min_isr = state.min_isr(self._settings.topic(item[0]).min_isr)
            if leading.advance(min_isr):
                self._acknowledged(item, leading)

    def remove_failed(self, item: Item) -> None:
        """Remove failed followers from an ISR while the controller does it for all of them."""
        state = self._context.image.state(*item)
        if self.machine is not None and state is not None:
            for each in state.isr:
                if each not in self._context.image.brokers:
                    self.machine.lagging(item, each)
            self.work()

    # ---- before an unclean election
    # ---------------------------------------------------------------------------------------------

    def ask_ends(
        self, broker_id: int, items: Sequence[Item], told: Callable[[dict[Item, End]], None]
    ) -> None:
        """Ask the process of a broker where its logs end."""

        def arrive() -> None:
            for peer in self.peers():
                if peer.broker_id == broker_id and peer.process.is_running:
                    answer = partial(told, peer.ends(items))
                    self.process.after(self._rng.randrange(1, 4), answer)

        rng = self._rng
        delay_ms = rng.randrange(4_000) if rng.random() < 0.05 else rng.randrange(1, 4)
        self.process.time.after(delay_ms, arrive)

    def ends(self, items: Sequence[Item]) -> dict[Item, End]:
        """Return where the logs of this disk end."""
        found = {}
        for item in items:
            entries = self._disk.replica(item).entries
            found[item] = End(entries[-1][0] if entries else -1, len(entries))
        return found

    # ---- the machine
    # ---------------------------------------------------------------------------------------------

    def image_changed(self, delta: Delta) -> None:
        if self.machine is not None:
            self.machine.image_changed(delta)

    def tick(self) -> None:
        machine, now_ms = self.machine, self.process.now_ms()
        if machine is None:
            return
        if machine.due_ms is not None and machine.due_ms <= now_ms:
            machine.tick(now_ms)
        for item, leading in self._leading.items():
            for each in leading.lagging(now_ms, LAG_MS):
                machine.lagging(item, each)
            if len(leading.maximal) == 1:
                self._advance(item)  # it may have been fenced before, and no follower asks
        self.work()

    def work(self) -> None:
        machine = self.machine
        if machine is None:
            return
        self._give_isrs(machine)
        while machine.has_work:
            write = machine.work()
            self._give_isrs(machine)
            if write is not None:
                self._write(machine, write)

    def _give_isrs(self, machine: IsrChanges) -> None:
        for item in machine.take_changed():
            self._set_isr(item)

    # ---- as follower
    # ---------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        rng, now_ms = self._rng, self.process.now_ms()
        self.process.after(rng.randrange(FETCH_MS // 2, FETCH_MS), self._fetch)
        if rng.random() < 0.01:
            self._slow_until_ms = now_ms + rng.choice((400, 2_000, 3_000))
        if now_ms < self._slow_until_ms or not self._epoch:
            return
        wanted: dict[int, list[Request]] = {}
        image = self._context.image
        for topic_id, topic in image.topics.items():
            for partition in range(topic.record.partitions):
                item = (topic_id, partition)
                state = image.state(*item)
                if (
                    state is not None
                    and state.leader not in {NO_LEADER, self.broker_id}
                    and self.broker_id in state.replicas
                ):
                    replica = self._disk.replica(item)
                    request = Request(
                        item,
                        self.broker_id,
                        self._epoch,
                        state.leader_epoch,
                        list(replica.entries),
                        replica.version,
                    )
                    wanted.setdefault(state.leader, []).append(request)
        for leader, requests in wanted.items():
            delay_ms = rng.randrange(200) if rng.random() < 0.02 else rng.randrange(1, 4)
            # The network delivers it whether or not this process is alive then.
            self.process.time.after(delay_ms, partial(self._ask, leader, requests))

    def _ask(self, leader: int, requests: list[Request]) -> None:
        for peer in self.peers():
            if peer.broker_id == leader and peer.process.is_running:
                answers = peer.answer(requests)
                self.process.after(self._rng.randrange(1, 4), partial(self._answered, answers))

    def _answered(self, answers: list[Answer]) -> None:
        for answer in answers:
            state = self._context.image.state(*answer.item)
            replica = self._disk.replica(answer.item)
            if (
                state is None
                or state.leader_epoch != answer.leader_epoch
                or replica.version != answer.version
                or answer.item in self._leading
            ):
                continue
            if answer.end < len(replica.entries):
                replica.cut(answer.end)
            else:
                replica.append(answer.entries, answer.watermark)
