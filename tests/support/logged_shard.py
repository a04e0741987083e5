"""A state machine, its log and a clock: the work of its driver, all at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from broker.core.coordination.machine import Decision, Moment, RecordFormat, Token
from broker.model.errors import CodecError

UNREADABLE = b"\x7f\xff"  # a value of an unknown version


class Shard(Protocol):
    """The state machine of one partition of a coordinator."""

    def replay(self, record: Any, /) -> None: ...

    def resume(self, now: Moment) -> Iterable[Decision[Any, Any]]: ...

    def tick(self, now: Moment) -> Iterable[Decision[Any, Any]]: ...

    def next_deadline_ms(self) -> int | None: ...

    def waiting(self) -> Sequence[Token]: ...


ShardT = TypeVar("ShardT", bound=Shard)


class LoggedShard(Generic[ShardT]):
    """Records are encoded to the log and decoded before the shard sees them."""

    def __init__(
        self, make: Callable[[], ShardT], record_format: RecordFormat[Any], now_ms: int
    ) -> None:
        self.make = make
        self.format = record_format
        self.log: list[list[tuple[bytes, bytes | None]]] = []  # batches
        self.now_ms = now_ms
        self.shard = make()

    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms)

    def write(self, decision: Decision[Any, Any]) -> None:
        """Append the records of a decision, and replay them."""
        batch = []
        for record in decision.records:
            key, value = self.format.encode(record)
            batch.append((key, value))
            replayed = self.format.decode(key, value)
            assert replayed == record
            self.shard.replay(replayed)
        if batch:
            self.log.append(batch)

    def loaded(self) -> ShardT:
        """Return another shard, loaded from the log."""
        shard = self.make()
        for batch in self.log:
            for key, value in batch:
                record = self.read(key, value)
                if record is not None:
                    shard.replay(record)
        return shard

    def read(self, key: bytes, value: bytes | None) -> Any:
        """Decode a record as a load does; None for one that is set aside."""
        try:
            return self.format.decode(key, value)
        except CodecError:
            return self.format.without_value(key)

    def spoil_last(self) -> None:
        """Make the value of the last record undecodable."""
        key, _ = self.log[-1][-1]
        self.log[-1][-1] = key, UNREADABLE

    def reload(self) -> Iterable[Decision[Any, Any]]:
        """Lose everything but the log, and resume."""
        self.shard = self.loaded()
        return self.shard.resume(self.now())

    def advance(self, ms: int) -> Iterator[Iterable[Decision[Any, Any]]]:
        """Let time pass, deadline by deadline, as the loop would; yield the decisions."""
        end_ms = self.now_ms + ms
        while True:
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            yield self.shard.tick(self.now())
        self.now_ms = end_ms
