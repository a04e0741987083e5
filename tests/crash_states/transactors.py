"""Transactional producers that use the broker's coordinators.

    init ── add partitions ── batches, committed offsets ── end ── the next one, or init again

Some ends are not awaited, some transactions are left open: the next init of their id ends them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.core.logs import partition
from broker.core.topics.topic import OFFSETS_TOPIC, Topic
from broker.core.transactions.commands import AddRequest, EndRequest, InitRequest, Producer
from broker.core.transactions.records import NO_ID
from broker.model.errors import ErrorCode
from tests.crash_states.broker_run import place_of
from tests.crash_states.expected_state import TRANSACTIONAL, Place, group_of
from tests.support.batches import header
from tests.support.native_log import NOW_MS

if TYPE_CHECKING:
    from asyncio import Future
    from random import Random

    from broker._native.log.partition_log import PartitionLog
    from tests.crash_states.driver import Driver

_AnswerT = TypeVar("_AnswerT")
ROUNDS_MAX = 100  # iterations of the loop: more than any response takes
TIMEOUT_MS = 900_000  # no transaction ends by its timeout
IMPLICIT_VERSION = 2


class Transactor:
    """One transactional id and its producer."""

    def __init__(self, driver: "Driver", transactional_id: str) -> None:
        self._driver = driver
        self._broker = driver.broker
        self._record = driver.record
        self._rng: Random = driver.rng
        self._id = transactional_id
        self._is_v2 = driver.rng.random() < 0.5
        self._producer: Producer | None = None
        self._sequences: dict[Place, int] = {}

    def transact(self) -> None:
        """Run one transaction, with or without its end."""
        producer = self._producer or self._init()
        self._producer = None
        self._record.tell("transaction_begun", self._id, producer.producer_id)
        for topic, log in self._driver.some_logs():
            self._add(producer, (topic.name, log.partition))
            for _ in range(self._rng.choice((1, 1, 2))):
                self._send(producer, topic, log)
        if self._rng.random() < 0.4:
            self._commit_offset(producer)
        fate = self._rng.random()
        if fate < 0.15:
            self._driver.finish_all()
        elif fate < 0.9:
            self._end(producer)

    def _init(self) -> Producer:
        fresh_id = NO_ID
        if self._broker.transactions.needs_fresh_id(self._id):
            fresh_id = self._broker.run(self._broker.ids.next_id())
            self._record.tell("id_issued", fresh_id)
        request = InitRequest(self._id, TIMEOUT_MS, fresh_id)
        for _ in range(ROUNDS_MAX):
            answer = self._ask(lambda: self._broker.transactions.init(request))
            if answer.error is ErrorCode.NONE:
                self._sequences.clear()
                self._record.tell("transactions_over", self._id)
                return Producer(self._id, answer.producer_id, answer.producer_epoch)
            assert answer.error is ErrorCode.CONCURRENT_TRANSACTIONS, answer
            self._driver.finish_all()
        raise AssertionError(f"{self._id} cannot be initialised")

    def _add(self, producer: Producer, place: tuple[str, int]) -> None:
        request = AddRequest(producer, (place,), IMPLICIT_VERSION if self._is_v2 else 0)
        for _ in range(ROUNDS_MAX):
            error = self._ask(lambda: self._broker.transactions.add(request))
            if error is ErrorCode.NONE:
                return
            assert error is ErrorCode.CONCURRENT_TRANSACTIONS, error
            self._driver.finish_all()
        raise AssertionError(f"{place} cannot be added")

    def _send(self, producer: Producer, topic: Topic, log: "PartitionLog") -> None:
        place = place_of(log)
        batch = self._driver.batch(
            topic.config.integer("segment.bytes"),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=self._sequences.get(place, 0),
            is_transactional=True,
        )
        end = self._driver.tell_sending(log, batch, TRANSACTIONAL)
        count = header(batch).record_count
        self._record.tell("transaction_sent", self._id, place, end - count, end)
        appended = partition.append(log, topic.config, batch, NOW_MS)
        assert appended.end_offset == end
        self._sequences[place] = self._sequences.get(place, 0) + count
        self._driver.wait(log, end, end)

    def _commit_offset(self, producer: Producer) -> None:
        group = group_of(self._id)
        self._add(producer, (OFFSETS_TOPIC, 0))
        offset = self._driver.fresh_number()
        self._record.tell("transaction_commits", self._id, offset)
        offsets = (OffsetToCommit("one", 0, offset),)
        transaction = producer.producer_id, producer.producer_epoch
        request = CommitRequest(group, "", None, -1, offsets, transaction)
        answer = self._ask(lambda: self._broker.groups.commit_offsets(request))
        assert answer.errors == (ErrorCode.NONE,), answer

    def _end(self, producer: Producer) -> None:
        is_commit = self._rng.random() < 0.6
        self._record.tell("transaction_ending", self._id, is_commit=is_commit)
        fresh_id = self._broker.run(self._broker.ids.next_id()) if self._is_v2 else NO_ID
        request = EndRequest(producer, is_commit, self._is_v2, fresh_id)
        asked = self._broker.transactions.end(request)
        if self._rng.random() < 0.2:
            self._driver.begin_turn()
            return
        answer = self._wait(asked)
        while (
            answer.error is ErrorCode.CONCURRENT_TRANSACTIONS
        ):  # the previous one is not completed
            self._driver.finish_all()
            answer = self._ask(lambda: self._broker.transactions.end(request))
        if answer.error is ErrorCode.INVALID_TXN_STATE:
            return  # no partition was added
        assert answer.error is ErrorCode.NONE, answer
        self._record.tell("transaction_ended", self._id)
        epoch = answer.producer_epoch if self._is_v2 else producer.producer_epoch
        producer_id = answer.producer_id if self._is_v2 else producer.producer_id
        if self._is_v2:
            self._sequences.clear()
        self._producer = Producer(self._id, producer_id, epoch)

    def _ask(self, command: Callable[[], "Future[_AnswerT]"]) -> _AnswerT:
        return self._wait(command())

    def _wait(self, answer: "Future[_AnswerT]") -> _AnswerT:
        for _ in range(ROUNDS_MAX):
            if answer.done():
                return answer.result()
            self._driver.finish_all()
        raise AssertionError(f"{self._id} waits forever")
