"""Clients of one life, and a record of what they are told and of what the disk is told.

What happens is drawn from a generator, so a seed is a whole run. One log at a time has something to
sync and is waited for: the order of operations does not depend on when threads run.
"""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.codec.control_records import Marker, encode_marker
from broker.core import partition
from broker.core.groups.commands import CommitRequest, OffsetToCommit
from broker.core.topic import OFFSETS_TOPIC, Topic
from broker.core.topic_rules import NewTopic
from broker.model.errors import ErrorCode
from tests.batches import batch_of, header
from tests.crash_states.life import Life, only_log
from tests.crash_states.truth import ABORT, COMMIT, PLAIN, TRANSACTIONAL, LogTruth, Sent, Truth
from tests.native_log import NOW_MS

if TYPE_CHECKING:
    from tests.crash_states.disk import Operation

GROUPS = ("group 1", "group 2")
TOPICS = ("one", "two", "three")
KEYS = (b"key 0", b"key 1", b"key 2")


class Event(NamedTuple):
    """Something that a client knows once so many operations are done."""

    place: int
    name: str  # a method of Truth
    arguments: tuple[Any, ...]
    named: dict[str, Any]


class Record:
    """Operations on the disk, and what was said between them."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.events: list[Event] = []

    def tell(self, name: str, *arguments: Any, **named: Any) -> None:
        """Say something, between what was done so far and what follows; no thread is at work."""
        self.drain()
        self.events.append(Event(len(self.operations), name, arguments, named))

    def drain(self) -> None:
        self.operations += file_ops.recorded()
        file_ops.start_recording()


class Producer:
    """An idempotent producer of one log."""

    def __init__(self, producer_id: int, *, is_transactional: bool) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.is_transactional = is_transactional
        self.is_open = False
        self.last: bytes = b""
        self.last_end = 0


class Driver:
    """Does what clients and operators do."""

    def __init__(self, life: Life, record: Record, rng: Random) -> None:
        self.life = life
        self.record = record
        self.rng = rng
        self._producers: dict[bytes, list[Producer]] = {}
        self._count = 0
        life.starts_planned = self._starts_planned

    def tell_what_was_found(self, truth: Truth) -> None:
        """After a start: from here on clients go by what it serves."""
        for topic in self.life.topics:
            known = truth.logs.get(topic.topic_id)
            log = only_log(topic)
            if known is not None:
                ends = (log.log_end_offset, log.durable_end, log.log_start_offset)
                self.record.tell("recovered", topic.topic_id, *ends)
                self._producers[topic.topic_id] = _producers(known, log.log_end_offset)
            elif topic.name != OFFSETS_TOPIC:
                self._tell_made(topic)

    # ---- topics ----------------------------------------------------------------------------------

    def create_topic(self) -> None:
        free = [name for name in TOPICS if self.life.topics.get(name) is None]
        if not free:
            return
        rng = self.rng
        config = {
            "polylog.durability": rng.choice(("group-commit", "os")),
            "segment.bytes": str(rng.choice((2_000, 6_000, 30_000))),
            "index.interval.bytes": "400",
            "retention.bytes": str(rng.choice((4_000, 8_000))),
            "file.delete.delay.ms": "0",
        }
        if rng.random() < 0.3:
            config |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        topic = self.life.run(self.life.topics.create(NewTopic(rng.choice(free), 1, config=config)))
        self._tell_made(topic)

    def _tell_made(self, topic: Topic) -> None:
        self.record.tell(
            "topic_made",
            topic.topic_id,
            topic.name,
            topic.config.text("polylog.durability"),
            is_compacted="compact" in topic.config.words("cleanup.policy"),
        )

    def delete_topic(self) -> None:
        topic = self._topic()
        if topic is not None:
            self.record.tell("topic_doomed", topic.name)
            self.life.run(self.life.topics.delete(topic))
            self._producers.pop(topic.topic_id, None)

    def _topic(self) -> Topic | None:
        names = [each.name for each in self.life.topics if each.name != OFFSETS_TOPIC]
        return self.life.topics.get(self.rng.choice(names)) if names else None

    # ---- records ---------------------------------------------------------------------------------

    def produce(self) -> None:
        """Some batches in one turn, acknowledged when the broker says so."""
        topic = self._topic()
        if topic is None:
            return
        waiting = [self._send(topic) for _ in range(self.rng.choice((1, 1, 2, 4)))]
        self._tell_acknowledged(topic, waiting)
        self.finish_turn(topic)
        self.life.run(asyncio.sleep(0))
        self._tell_acknowledged(topic, waiting)
        assert all(task.done() for task, _ in waiting)
        if self.rng.random() < 0.3:
            self.read(topic)

    def finish_turn(self, topic: Topic) -> None:
        """Write and sync what the turn has brought."""
        log = only_log(topic)
        self.life.end_turn()
        self.life.until_synced(log)
        assert not log.is_offline
        if topic.name != OFFSETS_TOPIC:
            self.record.tell("written", topic.topic_id, log.log_end_offset, log.durable_end)
        self.life.write_snapshots()

    def read(self, topic: Topic) -> None:
        log = only_log(topic)
        offset = log.log_start_offset
        while offset < log.high_watermark:
            offset = header(log.read(offset, 1)).last_offset + 1
        self.record.tell("read", topic.topic_id, log.high_watermark)

    def _tell_acknowledged(self, topic: Topic, waiting: list[tuple[Any, int]]) -> None:
        for task, end in waiting:
            if task.done() and task.result():
                self.record.tell("acknowledged", topic.topic_id, end)

    def _send(self, topic: Topic) -> tuple["asyncio.Task[bool]", int]:
        rng, log = self.rng, only_log(topic)
        is_compacted = "compact" in topic.config.words("cleanup.policy")
        producer = self._producer(topic, may_be_transactional=not is_compacted)
        if producer is not None and producer.last and rng.random() < 0.25:
            appended = partition.append(log, topic.config, producer.last, NOW_MS)
            return self._wait(log, appended.end_offset), producer.last_end
        fields = {}
        kind = PLAIN
        if producer is not None:
            fields = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
            }
            if producer.is_transactional:
                kind = TRANSACTIONAL
                fields["is_transactional"] = True
                log.admit_transaction(producer.producer_id, producer.epoch)
                producer.is_open = True
        batch = self._batch(topic.config.integer("segment.bytes"), **fields)
        end = self._tell_sending(topic, batch, kind)
        appended = partition.append(log, topic.config, batch, NOW_MS)
        assert appended.end_offset == end
        if producer is not None:
            producer.sequence += header(batch).record_count
            producer.last, producer.last_end = batch, end
        return self._wait(log, appended.end_offset), end

    def _wait(self, log: PartitionLog, end: int) -> "asyncio.Task[bool]":
        task = self.life.loop.create_task(partition.wait_durable(log, end))
        self.life.loop.run_until_complete(asyncio.sleep(0))
        return task

    def _batch(self, bytes_max: int, **fields: Any) -> bytes:
        rng = self.rng
        size = min(rng.choice((10, 100, 100, 600, 1_500)), bytes_max // 4)
        records: list[tuple[bytes, bytes, Any]] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            self._count += 1
            value = b"%d " % self._count + rng.randbytes(4).hex().encode()
            records.append((rng.choice(KEYS), value.ljust(size, b"."), []))
        return batch_of(records, NOW_MS + self._count, **fields)

    def _tell_sending(self, topic: Topic, batch: bytes, kind: str) -> int:
        log, facts = only_log(topic), header(batch)
        base = log.log_end_offset
        end = base + facts.record_count
        producer = (facts.producer_id, facts.producer_epoch, facts.base_sequence)
        sent = Sent(base, end, batch, *producer, kind)
        self.record.tell("sending", topic.topic_id, sent, log.leader_epoch)
        return int(end)

    def _producer(self, topic: Topic, *, may_be_transactional: bool) -> Producer | None:
        rng = self.rng
        if rng.random() < 0.4:
            return None
        producers = self._producers.setdefault(topic.topic_id, [])
        if len(producers) < 3:
            producer_id = self.life.ids.next_id()
            self.record.tell("id_issued", producer_id)
            is_transactional = may_be_transactional and rng.random() < 0.5
            producers.append(Producer(producer_id, is_transactional=is_transactional))
        return rng.choice([*producers])

    def end_transaction(self) -> None:
        topic = self._topic()
        producers = self._producers.get(topic.topic_id, ()) if topic else ()
        for producer in producers:
            if topic is not None and producer.is_open:
                commits = self.rng.random() < 0.5
                batch = encode_marker(
                    Marker(producer.producer_id, producer.epoch, commits, 0), timestamp_ms=NOW_MS
                )
                self._tell_sending(topic, batch, COMMIT if commits else ABORT)
                only_log(topic).append_internal(batch)
                producer.is_open = False
                self.finish_turn(topic)
                return

    # ---- groups ----------------------------------------------------------------------------------

    def commit_offset(self) -> None:
        """A group's offset, acknowledged when the coordinator answers."""
        life = self.life
        if life.topics.get(OFFSETS_TOPIC) is None:
            life.run(life.topics.offsets_topic())
            life.load_groups()
        group = self.rng.choice(GROUPS)
        self._count += 1
        self.record.tell("committing", group, self._count)
        offsets = (OffsetToCommit("one", 0, self._count),)
        answer = life.groups.commit_offsets(CommitRequest(group, "", None, -1, offsets))
        offsets_topic = life.topics.get(OFFSETS_TOPIC)
        assert offsets_topic is not None
        self.finish_turn(offsets_topic)
        life.groups.tick()
        life.run(asyncio.sleep(0))
        assert answer.result().errors == (ErrorCode.NONE,)
        self.record.tell("committed_to", group, self._count)

    # ---- upkeep ----------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        self.life.checkpoint()

    def retain(self) -> None:
        """Apply retention, and remove files whose time is over."""
        self.life.run(self.life.upkeep.apply_retention())
        self._finish_rolls()
        for topic in self.life.topics:
            if topic.name != OFFSETS_TOPIC:
                self.record.tell("start_moved", topic.topic_id, only_log(topic).log_start_offset)
        self.life.run(self.life.upkeep.remove_due_files())

    def delete_records(self) -> None:
        topic = self._topic()
        if topic is None or "compact" in topic.config.words("cleanup.policy"):
            return
        log = only_log(topic)
        start = self.rng.randint(log.log_start_offset, log.high_watermark)
        self.life.save_log_starts([(log, start)])
        log.move_log_start(start)
        self.record.tell("start_moved", topic.topic_id, start)

    def _starts_planned(self, planned: Any) -> None:
        ids = {only_log(topic): topic.topic_id for topic in self.life.topics}
        for log, start in planned:
            if log.topic != OFFSETS_TOPIC:
                self.record.tell("start_planned", ids[log], start)

    def compact(self) -> None:
        """One pass over one log, if one is due."""
        self.life.run(self.life.cleaning.clean_next())
        self._finish_rolls()

    def rest(self) -> None:
        """Nobody uses a log for so long that its files are closed."""
        for _ in range(3):
            self.life.turn.files.begin_tick()
        self.life.turn.files.close_idle(1_000_000)
        for topic in self.life.topics:
            log = only_log(topic)
            while log.durable_end < log.log_end_offset:
                self.life.take_synced()
        for topic in self.life.topics:
            if topic.name != OFFSETS_TOPIC:
                log = only_log(topic)
                self.record.tell("written", topic.topic_id, log.log_end_offset, log.durable_end)

    def _finish_rolls(self) -> None:
        rolled = {log for _, log in self.life.turn.events}
        for topic in self.life.topics:
            if only_log(topic) in rolled:
                self.finish_turn(topic)


def _producers(known: LogTruth, end: int) -> list[Producer]:
    """Who goes on after a start: those whose batches it has found."""
    found: dict[int, Producer] = {}
    for sent in known.sent:
        if sent.end > end or sent.producer_id < 0:
            continue
        if sent.kind in (COMMIT, ABORT):
            found[sent.producer_id].is_open = False
            continue
        producer = found.setdefault(
            sent.producer_id,
            Producer(sent.producer_id, is_transactional=sent.kind == TRANSACTIONAL),
        )
        producer.sequence = sent.sequence + sent.end - sent.base
        producer.last, producer.last_end = sent.batch, sent.end
        producer.is_open = sent.kind == TRANSACTIONAL
    return list(found.values())
