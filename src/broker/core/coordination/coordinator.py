"""The driver of a state machine whose state is a log: one coordinator partition.

    command -> machine -> Decision(records, replies)
                              |         |
                 append as one batch    |      then replay, before the next command
                              |         v
                        durable? ----> replies are sent

Loading (load.py) reads the same log through the same `replay`. Every reply, also to a
read, waits until everything appended before it is durable: a power cut takes back nothing that was
returned. When an append fails or the log goes offline, the machine is dropped, waiting requests
are answered with an error that makes clients look for the coordinator again, and the next command
loads a new machine from the log. The same happens while another broker may lead the partition: what
this one decides is not acknowledged then.

A log with other replicas may become durable late. While too few of them are in sync, and after
COORDINATOR_REPLY_MS, waiting replies are refused in the same way; the machine keeps what it has
replayed, which is in the log, and becomes durable with what follows.
"""

import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import Generic, TypeAlias, TypeVar, cast

from broker.codec import encode
from broker.codec.control_records import Marker, encode_marker
from broker.core.coordination.load import CoordinatorLoad
from broker.core.coordination.machine import Decision, Machine, RecordFormat, Token
from broker.core.coordination.notes import Notes
from broker.core.logs.log import InternalLog
from broker.model.clock import Clock
from broker.model.errors import (
    DiskFull,
    ErrorCode,
    PolylogError,
    TooFewReplicas,
    TooManyProducers,
)
from broker.model.limits import BATCH_BYTES_MAX, COORDINATOR_REPLY_MS, REPLIES_PER_TURN

logger = logging.getLogger(__name__)

RecordT = TypeVar("RecordT")
ResponseT = TypeVar("ResponseT")


def put_response(future: Future[ResponseT], response: ResponseT) -> None:
    """Set the response of a future, unless its requester has gone."""
    if not future.done():
        future.set_result(response)


class Waiter(Generic[ResponseT]):
    """A request that waits for its response: the token that this driver gives to machines."""

    __slots__ = ("_refusal", "answer", "is_patient")

    def __init__(
        self,
        answer: Callable[[ResponseT], None],
        refusal: Callable[[ErrorCode], ResponseT],
        *,
        is_patient: bool = False,
    ) -> None:
        """Keep what sends the response, and how an error is expressed in one of its kind.

        `is_patient`: it waits for what was appended as long as that may become durable. Nobody else
        would ask again for what follows from it.
        """
        self.answer = answer
        self.is_patient = is_patient
        self._refusal = refusal

    def refuse(self, error: ErrorCode) -> None:
        """Respond with an error."""
        self.answer(self._refusal(error))


# The end of what was appended, when the replies are refused (0: never), and the replies.
_Held: TypeAlias = tuple[int, int, list[tuple[Token, ResponseT]]]


class PartitionState(Enum):
    """The states of a coordinator partition."""

    LOADING = "loading"
    ACTIVE = "active"
    UNLOADED = "unloaded"  # final: another object is made when the partition is needed again


class CoordinatorPartition(Generic[RecordT, ResponseT]):
    """One state machine and its log."""

    def __init__(  # noqa: PLR0913 (a machine, a log, and what each needs)
        self,
        name: str,
        log: InternalLog,
        machine: Machine[RecordT],
        record_format: RecordFormat[RecordT],
        clock: Clock,
        wake: Callable[[], None],
        *,
        notes: Notes,
        known_damages: set[tuple[int, int]],
    ) -> None:
        """Begin to load: `load_step` has to be called until `state` is not LOADING.

        `wake` is called when a load that had to wait can continue, and when there are more replies
        than may be sent in one turn. `known_damages`: see CoordinatorLoad.
        """
        self.name = name
        self.state = PartitionState.LOADING
        self._log = log
        self._machine = machine
        self._format = record_format
        self._clock = clock
        self._wake = wake
        self._notes = notes
        self._load = CoordinatorLoad(log, machine, record_format, known_damages)
        self._load_is_waiting = False
        self._end_offset = log.log_end_offset
        self._awaited_offset = 0  # the log will call back when this offset is durable
        # End offset, when they are refused (0: never), and the replies.
        self._held: deque[_Held[ResponseT]] = deque()
        self._replies_later = False  # this turn has sent REPLIES_PER_TURN
        self._in_steps: set[Token] = set()  # requests whose decisions are not all applied yet

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of its log: it grows with each unclean start."""
        return self._log.leader_epoch

    # ---- load ------------------------------------------------------------------------------------

    @property
    def wants_load_step(self) -> bool:
        """Whether there is something to load now, as opposed to waiting for durability."""
        return self.state is PartitionState.LOADING and not self._load_is_waiting

    def load_step(self) -> None:
        """Replay the next part of the log; ACTIVE once its end is reached, UNLOADED on failure.

        An exception of the machine is raised; the state is UNLOADED then, too.
        """
        load = self._load
        try:
            if not load.is_done and not load.step():  # the rest is not durable yet
                self._load_is_waiting = True
                self._log.when_durable(load.end_offset, self._continue_load)
        except (PolylogError, OSError, IndexError) as error:
            logger.error(  # noqa: TRY400 (the message is complete without a traceback)
                "coordinator load failed partition=%s offset=%d error=%s: its clients are answered"
                " COORDINATOR_NOT_AVAILABLE",
                self.name,
                load.next_offset,
                error,
            )
            self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except Exception:
            self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            raise
        if self.state is PartitionState.LOADING and load.is_done:
            self.state = PartitionState.ACTIVE
            self._note_lost()

    def _note_lost(self) -> None:
        total, offsets, reason = self._load.lost
        if total:
            logger.error(
                "coordinator load set records aside partition=%s count=%d offsets=%s%s"
                " first_error=%s: they cannot be read, all others are in use",
                self.name,
                total,
                ",".join(map(str, offsets)),
                ",..." if total > len(offsets) else "",
                reason,
            )

    @property
    def lost_count(self) -> int:
        """How many records the load has not been able to read so far."""
        return self._load.lost.total

    def _continue_load(self, is_durable: bool) -> None:
        self._load_is_waiting = False
        if is_durable or (self._log.lacks_replicas and not self._log.is_offline):
            self._wake()
        else:
            self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # ---- serve -----------------------------------------------------------------------------------

    def apply(self, decision: Decision[RecordT, ResponseT]) -> bool:
        """Append, replay, and send the replies once everything appended so far is durable.

        Return False when the disk had no space for the records, or too few replicas are in sync:
        the decision has no effect, and its requests are refused.
        """
        self.check()
        is_active = self.state is PartitionState.ACTIVE
        try:
            if is_active and decision.records and not self._append(decision):
                self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except TooManyProducers as error:  # one more transactional producer than the log may have
            self._notes.log([f"records refused partition={self.name} reason={error}"])
            _refuse((token for token, _ in decision.replies), ErrorCode.POLICY_VIOLATION)
            return True
        except (DiskFull, TooFewReplicas) as error:
            self._notes.log([f"records refused partition={self.name} reason={error}"])
            _refuse((token for token, _ in decision.replies), ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return False
        if self.state is PartitionState.UNLOADED:
            _refuse((token for token, _ in decision.replies), ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return True
        if self._can_answer_now and not decision.records and not decision.notes:
            for token, response in decision.replies:
                _waiter(token).answer(response)
            return True
        pending = self._machine.pending
        if decision.transaction is None or pending is None:
            replay = self._machine.replay
        else:
            replay = partial(pending.replay_pending, decision.transaction[0])
        for record in decision.records:
            replay(record)
        self._notes.log(decision.notes)
        self._hold(decision.replies)
        return True

    def until_answered(
        self, token: Token, steps: Iterator[Decision[RecordT, ResponseT]]
    ) -> Iterator[Decision[RecordT, ResponseT]]:
        """Return the decisions of a request, which is refused if their end is never reached."""
        self._in_steps.add(token)
        return self._run_registered(token, steps)

    def _run_registered(
        self, token: Token, steps: Iterator[Decision[RecordT, ResponseT]]
    ) -> Iterator[Decision[RecordT, ResponseT]]:
        yield from steps
        self._in_steps.discard(token)

    @property
    def _can_answer_now(self) -> bool:
        """Whether everything appended is durable and no earlier reply is waiting."""
        return not self._held and self._end_offset <= self._log.high_watermark

    def end_transaction(self, marker: Marker, waiter: Waiter[ErrorCode]) -> None:
        """Append a marker, apply its effect, and respond NONE once it is durable."""
        self.check()
        pending = self._machine.pending
        if self.state is PartitionState.ACTIVE and pending is not None:
            epoch, now_ms = self._log.leader_epoch, self._clock.wall_ms()
            batch = encode_marker(marker, leader_epoch=epoch, timestamp_ms=now_ms)
            try:
                is_appended = self._append_batch(batch, 1)
            except (DiskFull, TooFewReplicas):  # the requester retries
                waiter.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
            if is_appended:
                pending.end_transaction(marker.producer_id, is_committed=marker.is_committed)
                self._hold([(waiter, cast("ResponseT", ErrorCode.NONE))])
                return
            self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        waiter.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _hold(self, replies: list[tuple[Token, ResponseT]]) -> None:
        if replies:
            due_ms = 0
            if self._log.is_replicated:
                due_ms = self._clock.monotonic_ms() + COORDINATOR_REPLY_MS
            self._held.append((self._end_offset, due_ms, replies))
            self._release_or_wait()

    def _release_or_wait(self) -> None:
        if self._end_offset <= self._log.high_watermark:
            self._release(is_durable=True)
        elif self._log.lacks_replicas:
            self._refuse_held()
        elif self._end_offset > self._awaited_offset:
            self._awaited_offset = self._end_offset
            self._log.when_durable(self._end_offset, self._release)

    def _append(self, decision: Decision[RecordT, ResponseT]) -> bool:
        producer_id, epoch = decision.transaction or (-1, -1)
        try:
            # One batch, whatever its size: the records of a decision are written all or not at all.
            [batch] = encode(
                [self._format.encode(record) for record in decision.records],
                batch_bytes_max=BATCH_BYTES_MAX,
                leader_epoch=self._log.leader_epoch,
                producer_id=producer_id,
                producer_epoch=epoch,
                is_transactional=decision.transaction is not None,
                timestamp_ms=self._clock.wall_ms(),
            )
        except (PolylogError, ValueError) as error:  # ValueError: the format cannot express it
            return self._failed(error)
        return self._append_batch(batch, len(decision.records))

    def _append_batch(self, batch: bytes, count: int) -> bool:
        try:
            self._end_offset = self._log.append_internal(batch) + count
        except (TooManyProducers, DiskFull, TooFewReplicas):
            raise  # not a failure of the log
        except PolylogError as error:
            return self._failed(error)
        return True

    def _failed(self, error: Exception) -> bool:
        logger.error(
            "coordinator append failed partition=%s error=%s: its state is loaded again",
            self.name,
            error,
        )
        return False

    def _release(self, is_durable: bool) -> None:
        """Send the replies whose records are durable; if durability failed, refuse all of them.

        Also if another broker may coordinate the partition by now.
        """
        if not is_durable:
            self._awaited_offset = 0
            if self._log.lacks_replicas and self._log.is_led and not self._log.is_offline:
                self._refuse_held()
                return
            self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._log.is_led:
            self.unload(ErrorCode.NOT_COORDINATOR)
        if self.state is PartitionState.UNLOADED:
            return
        budget = 0 if self._replies_later else REPLIES_PER_TURN
        while self.has_replies and budget > 0:
            end_offset, due_ms, replies = self._held.popleft()
            for token, response in replies[:budget]:
                _waiter(token).answer(response)
            if len(replies) > budget:
                self._held.appendleft((end_offset, due_ms, replies[budget:]))
            budget -= len(replies)
        if self.has_replies and not self._replies_later:
            self._replies_later = True
            self._wake()

    @property
    def has_replies(self) -> bool:
        """Whether there are replies that can be sent now."""
        return bool(self._held) and self._held[0][0] <= self._log.high_watermark

    def send_replies(self) -> None:
        """Send the next replies in a new turn: the end of a rebalance answers up to a thousand."""
        self._replies_later = False
        if self.has_replies:
            self._release(is_durable=True)

    @property
    def due_ms(self) -> int | None:
        """When `refuse_late` has to be called; None: no reply waits for other replicas."""
        return self._held[0][1] or None if self._held else None

    def refuse_late(self, now_ms: int) -> None:
        """Refuse the replies that have waited for other replicas for too long."""
        late: list[_Held[ResponseT]] = []
        while self._held and 0 < self._held[0][1] <= now_ms:
            late.append(self._held.popleft())
        kept = _refuse_impatient(late)
        due_ms = now_ms + COORDINATOR_REPLY_MS
        self._held.extendleft((end, due_ms, replies) for end, _, replies in reversed(kept))

    def _refuse_held(self) -> None:
        held = list(self._held)
        self._held.clear()
        kept = _refuse_impatient(held)
        self._held.extendleft(reversed(kept))
        if kept and kept[-1][0] > self._awaited_offset:
            # (As often as the replicas become too few.)
            self._awaited_offset = kept[-1][0]
            self._log.when_durable(kept[-1][0], self._release)

    # ---- stop ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Unload the partition if its disk has failed, or if another broker may coordinate it."""
        if self._log.is_offline:
            self.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self._log.is_led:
            self.unload(ErrorCode.NOT_COORDINATOR)

    def unload(self, error: ErrorCode) -> None:
        """Drop the state and refuse all waiting requests; the log stays as it is."""
        if self.state is PartitionState.UNLOADED:
            return
        self.state = PartitionState.UNLOADED
        held = [token for _, _, replies in self._held for token, _ in replies]
        self._held.clear()
        _refuse([*held, *self._machine.waiting(), *self._in_steps], error)


def _waiter(token: Token) -> Waiter[object]:
    """Return the token as the Waiter that it is: machines do not look inside."""
    return cast("Waiter[object]", token)


def _refuse_impatient(held: "Iterable[_Held[ResponseT]]") -> "list[_Held[ResponseT]]":
    """Refuse replies because of too few replicas; return those that go on waiting."""
    kept: list[_Held[ResponseT]] = []
    refused: list[Token] = []
    for end_offset, due_ms, replies in held:
        patient = [each for each in replies if _waiter(each[0]).is_patient]
        refused += [token for token, _ in replies if not _waiter(token).is_patient]
        if patient:
            kept.append((end_offset, due_ms, patient))
    _refuse(refused, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return kept


def _refuse(tokens: Iterable[Token], error: ErrorCode) -> None:
    for token in tokens:
        _waiter(token).refuse(error)
