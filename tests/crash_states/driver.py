"""The clients of one broker run; records what they are told and what the disk is told.

Every action is drawn from a generator, so a seed determines a whole run.
"""

import asyncio
from random import Random
from typing import Any

from broker._native.log.partition_log import PartitionLog
from broker.codec.control_records import Marker, decode_marker, encode_marker
from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.core.logs import partition
from broker.core.topics.rules import NewPartitions, NewTopic
from broker.core.topics.topic import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from broker.model.errors import ErrorCode
from tests.crash_states.broker_run import BrokerRun, place_of
from tests.crash_states.expected_state import (
    ABORT,
    COMMIT,
    PLAIN,
    TRANSACTIONAL,
    ExpectedState,
    Place,
    Sent,
    group_of,
)
from tests.crash_states.producers import Producer, producers_of
from tests.crash_states.record import Record
from tests.crash_states.transactors import Transactor
from tests.support.batches import batch_of, header
from tests.support.native_log import NOW_MS

TRANSACTIONAL_IDS = ("tx 1", "tx 2")
OWN_GROUPS = ("group 1", "group 2")
GROUPS = (*OWN_GROUPS, *map(group_of, TRANSACTIONAL_IDS))
TOPICS = ("one", "two", "three")
PARTITIONS_MAX = 3
KEYS = (b"key 0", b"key 1", b"key 2")


class Driver:
    """Acts as clients and operators do."""

    def __init__(
        self, broker: BrokerRun, record: Record, rng: Random, *, is_coordinated: bool = False
    ) -> None:
        """Begin; `is_coordinated`: transactions go through the coordinator, not only to a log."""
        self.broker = broker
        self.record = record
        self.rng = rng
        self._producers: dict[Place, list[Producer]] = {}
        self._told: dict[Place, tuple[int, int]] = {}  # the acknowledgements of log ends
        self._waiting: list[tuple[Place, asyncio.Task[bool], int]] = []  # and up to which end
        self._count = 0
        self.haste = rng.choice((0.0, 0.3, 0.8))  # how often nobody waits for a sync
        self._transactors: dict[str, Transactor] = {}
        self.is_coordinated = is_coordinated
        self.is_uniform = False  # all batches have one size
        broker.starts_planned = self._starts_planned
        broker.marking = self._marking

    def tell_what_was_found(self, expected: ExpectedState) -> None:
        """Begin after a start: from now on clients rely on what it serves."""
        for topic in self.broker.topics:
            if not topic.is_internal:
                self._tell_made(topic)
        for place, log in self._logs():
            known = expected.logs.get(place)
            if known is not None:
                ends = (log.log_end_offset, log.durable_end, log.log_start_offset)
                self.record.tell("recovered", place, *ends)
                self._producers[place] = producers_of(
                    known, log.log_start_offset, log.log_end_offset, expected.transactors
                )
        if self.broker.topics.get(TRANSACTIONS_TOPIC) is not None:
            self.broker.finish_transactions()
            self._tell_written()

    def _logs(self) -> list[tuple[Place, PartitionLog]]:
        """Return the logs of client topics."""
        return [(place_of(log), log) for topic, log in self.broker.logs() if not topic.is_internal]

    # ---- topics ----------------------------------------------------------------------------------

    def create_topic(self) -> None:
        free = [name for name in TOPICS if self.broker.topics.get(name) is None]
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
        new = NewTopic(rng.choice(free), rng.choice((1, 1, 2)), config=config)
        self._tell_made(self.broker.run(self.broker.topics.create(new)))

    def _tell_made(self, topic: Topic) -> None:
        self.record.tell(
            "topic_made",
            topic.topic_id,
            topic.name,
            len(topic.logs),
            topic.config.text("polylog.durability"),
            is_compacted="compact" in topic.config.words("cleanup.policy"),
        )

    def enlarge_topic(self) -> None:
        topic = self._topic()
        if topic is not None and len(topic.logs) < PARTITIONS_MAX:
            new = NewPartitions(self.rng.randint(len(topic.logs) + 1, PARTITIONS_MAX))
            self.broker.run(self.broker.topics.add_partitions(topic, new))
            self._tell_made(topic)

    def delete_topic(self) -> None:
        topic = self._topic()
        if topic is not None:
            self.record.tell("topic_doomed", topic.name)
            self.broker.run(self.broker.topics.delete(topic))
            self.record.tell("topic_gone", topic.topic_id)

    def recreate_topic(self) -> None:
        """Recreate a topic of the same name while the old one's files are still being removed."""
        topic = self._topic()
        if topic is not None:
            self.record.tell("topic_doomed", topic.name)
            self.broker.run(self._delete_and_create(topic))

    async def _delete_and_create(self, topic: Topic) -> None:
        await self.broker.topics.delete(topic)
        self.record.tell("topic_gone", topic.topic_id)
        new = NewTopic(topic.name, len(topic.logs), config=dict(topic.config.overrides))
        self._tell_made(await self.broker.topics.create(new))

    def _topic(self) -> Topic | None:
        found = [each for each in self.broker.topics if not each.is_internal]
        return self.rng.choice(found) if found else None

    def _topic_and_log(self) -> tuple[Topic, PartitionLog] | None:
        topic = self._topic()
        if topic is None:
            return None
        log: Any = self.rng.choice(topic.logs)
        return topic, log

    # ---- records ---------------------------------------------------------------------------------

    def produce(self) -> None:
        """Append batches in one turn, acknowledged when the broker acknowledges them."""
        found = self._topic_and_log()
        if found is None:
            return
        topic, log = found
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            self._send(topic, log)
        self._tell_acknowledged()
        if self.rng.random() < self.haste:
            self.begin_turn()
        else:
            self.finish_turn(log)
        if self.rng.random() < 0.3:
            self.read(log)

    def begin_turn(self) -> None:
        """Write the batches of the turn and begin to sync them; other work continues meanwhile."""
        self.broker.end_turn()
        self._tell_written()
        self.broker.begin_syncs()

    def finish_turn(self, log: PartitionLog) -> None:
        """Write and sync the batches of the turn."""
        self.broker.end_turn()
        self.broker.until_synced(log)
        assert not log.is_offline
        self._tell_written()
        self.broker.write_snapshots()
        self._tell_acknowledged()

    def close(self) -> None:
        """Drop all pending waits."""
        for _, task, _ in self._waiting:
            task.cancel()
        self.broker.run(asyncio.sleep(0))

    def _tell_written(self) -> None:
        self.broker.end_turn()  # a callback of a sync may have written
        for place, log in self._logs():
            ends = log.log_end_offset, log.durable_end
            if self._told.get(place) != ends:
                self._told[place] = ends
                self.record.tell("written", place, *ends)

    def read(self, log: PartitionLog) -> None:
        offset = log.log_start_offset
        while offset < log.high_watermark:
            offset = header(log.read(offset, 1)).last_offset + 1
        self.record.tell("read", place_of(log), log.high_watermark)

    def _tell_acknowledged(self) -> None:
        """Notify the producers whose batches have become durable."""
        self.broker.run(asyncio.sleep(0))
        waiting, self._waiting = self._waiting, []
        for place, task, end in waiting:
            if not task.done():
                self._waiting.append((place, task, end))
            elif task.result():
                self.record.tell("acknowledged", place, end)

    def _send(self, topic: Topic, log: PartitionLog) -> None:
        rng = self.rng
        is_compacted = "compact" in topic.config.words("cleanup.policy")
        is_free = not (is_compacted or self.is_coordinated)
        producer = self._producer(log, may_be_transactional=is_free)
        if producer is not None and producer.last and rng.random() < 0.25:
            appended = partition.append(log, topic.config, producer.last, NOW_MS)
            self.wait(log, appended.end_offset, producer.last_end)
            return
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
        batch = self.batch(topic.config.integer("segment.bytes"), **fields)
        end = self.tell_sending(log, batch, kind)
        appended = partition.append(log, topic.config, batch, NOW_MS)
        assert appended.end_offset == end
        if producer is not None:
            producer.sequence += header(batch).record_count
            producer.last, producer.last_end = batch, end
        self.wait(log, appended.end_offset, end)

    def wait(self, log: PartitionLog, offset: int, end: int) -> None:
        """Acknowledge the batch that ends at `end` when the broker reports `offset` as durable."""
        task = self.broker.loop.create_task(partition.wait_durable(log, offset))
        self._waiting.append((place_of(log), task, end))
        self.broker.loop.run_until_complete(asyncio.sleep(0))

    def batch(self, bytes_max: int, **fields: Any) -> bytes:
        rng = self.rng
        size = 300 if self.is_uniform else rng.choice((10, 100, 100, 600, 1_500))
        size = min(size, bytes_max // 4)
        records: list[tuple[bytes, bytes, Any]] = []
        for _ in range(2 if self.is_uniform else rng.choice((1, 1, 2, 3))):
            self._count += 1
            value = b"%d " % self._count + rng.randbytes(4).hex().encode()
            records.append((rng.choice(KEYS), value.ljust(size, b"."), []))
        return batch_of(records, NOW_MS + self._count, **fields)

    def tell_sending(self, log: PartitionLog, batch: bytes, kind: str) -> int:
        facts = header(batch)
        base = log.log_end_offset
        end = base + facts.record_count
        producer = (facts.producer_id, facts.producer_epoch, facts.base_sequence)
        sent = Sent(base, end, batch, *producer, kind)
        self.record.tell("sending", place_of(log), sent, log.leader_epoch)
        return int(end)

    def _producer(self, log: PartitionLog, *, may_be_transactional: bool) -> Producer | None:
        rng = self.rng
        if rng.random() < 0.4:
            return None
        producers = self._producers.setdefault(place_of(log), [])
        if len(producers) < 3:
            producer_id = self.broker.run(self.broker.ids.next_id())
            self.record.tell("id_issued", producer_id)
            is_transactional = may_be_transactional and rng.random() < 0.5
            producers.append(Producer(producer_id, is_transactional=is_transactional))
        return rng.choice([*producers])

    def end_transaction(self) -> None:
        for place, log in self._logs():
            for producer in self._producers.get(place, ()):
                if producer.is_open:
                    self._write_marker(log, producer)
                    return

    def _write_marker(self, log: PartitionLog, producer: Producer) -> None:
        commits = self.rng.random() < 0.5
        batch = encode_marker(
            Marker(producer.producer_id, producer.epoch, commits, 0), timestamp_ms=NOW_MS
        )
        self.tell_sending(log, batch, COMMIT if commits else ABORT)
        log.append_internal(batch)
        producer.is_open = False
        self.finish_turn(log)

    def transact(self) -> None:
        """Run a transaction through the coordinator."""
        broker = self.broker
        for name, make, read in (
            (OFFSETS_TOPIC, broker.topics.offsets_topic, broker.load_groups),
            (TRANSACTIONS_TOPIC, broker.topics.transactions_topic, broker.load_transactions),
        ):
            if broker.topics.get(name) is None:
                broker.run(make())
                read()
        name = self.rng.choice(TRANSACTIONAL_IDS)
        if name not in self._transactors:
            self._transactors[name] = Transactor(self, name)
        self._transactors[name].transact()

    def some_logs(self) -> list[tuple[Topic, PartitionLog]]:
        """Return logs for a transaction."""
        logs = [
            (topic, log)
            for topic, log in self.broker.logs()
            if not topic.is_internal and "compact" not in topic.config.words("cleanup.policy")
        ]
        return self.rng.sample(logs, min(len(logs), self.rng.randint(0, 3)))

    def finish_all(self) -> None:
        """Sync everything and let coordinators continue."""
        self.broker.take_turn()
        self._tell_written()
        self.broker.write_snapshots()
        self._tell_acknowledged()

    def fresh_number(self) -> int:
        """Return a number unused in this run."""
        self._count += 1
        return self._count

    def _marking(self, log: PartitionLog, batch: bytes) -> None:
        marker = decode_marker(batch)
        assert marker is not None
        self.tell_sending(log, batch, COMMIT if marker.is_committed else ABORT)

    # ---- groups ----------------------------------------------------------------------------------

    def commit_offset(self) -> None:
        """Commit a group's offset, acknowledged when the coordinator answers."""
        broker = self.broker
        if broker.topics.get(OFFSETS_TOPIC) is None:
            broker.run(broker.topics.offsets_topic())
            broker.load_groups()
        group = self.rng.choice(OWN_GROUPS)
        self._count += 1
        self.record.tell("committing", group, self._count)
        offsets = (OffsetToCommit("one", 0, self._count),)
        answer = broker.groups.commit_offsets(CommitRequest(group, "", None, -1, offsets))
        self.finish_turn(broker.log(OFFSETS_TOPIC))
        broker.groups.tick()
        broker.run(asyncio.sleep(0))
        assert answer.result().errors == (ErrorCode.NONE,)
        self.record.tell("committed_to", group, self._count)

    # ---- upkeep ----------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        self.broker.checkpoint()

    def retain(self) -> None:
        """Apply retention, and remove files whose time is over."""
        self.broker.run(self.broker.retention.apply_retention())
        self._finish_rolls()
        for place, log in self._logs():
            self.record.tell("start_moved", place, log.log_start_offset)
        self.broker.run(self.broker.retention.remove_due_files())

    def delete_records(self) -> None:
        found = self._topic_and_log()
        if found is None or "compact" in found[0].config.words("cleanup.policy"):
            return
        log = found[1]
        start = self.rng.randint(log.log_start_offset, log.high_watermark)
        self.broker.save_log_starts([(log, start)])
        log.move_log_start(start)
        self.record.tell("start_moved", place_of(log), start)

    def _starts_planned(self, planned: Any) -> None:
        for log, start in planned:
            if log.topic not in INTERNAL_TOPICS:
                self.record.tell("start_planned", place_of(log), start)

    def compact(self) -> None:
        """One pass over one log, if one is due."""
        self.broker.run(self.broker.cleaner.clean_next())
        self._finish_rolls()

    def move(self) -> None:
        """Move a log to another directory while batches are appended to it."""
        found = self._topic_and_log()
        if found is None:
            return
        self._sync_begun()
        topic, log = found

        def append() -> None:
            if self.rng.random() < 0.3:
                self._send(topic, log)
            if self.rng.random() < 0.5:
                self.broker.end_turn()

        self.broker.move(log, append)
        self.finish_turn(log)

    def rest(self) -> None:
        """Leave a log idle until its files are closed."""
        self._sync_begun()
        for _ in range(3):
            self.broker.turn.files.begin_tick()
        self.broker.turn.files.close_idle(1_000_000)
        self._sync_begun()
        self._tell_written()

    def _sync_begun(self) -> None:
        """Complete every sync that has begun, and those that follow from it."""
        for _ in range(3):
            self.broker.end_turn()
            self.broker.begin_syncs()
            self.broker.end_syncs()

    def _finish_rolls(self) -> None:
        rolled = {log for _, log in self.broker.turn.events}
        for _, log in self.broker.logs():
            if log in rolled:
                self.finish_turn(log)
