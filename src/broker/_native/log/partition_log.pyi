from typing import Self, final

from broker._native.log.replicated_log import ReplicatedLog
from broker._native.log.turn import Turn
from broker.model.log_results import AppendResult, LogState

@final
class PartitionLog(ReplicatedLog):
    def __new__(
        cls,
        turn: Turn,
        topic: str,
        topic_id: bytes,
        partition: int,
        folder: str,
        *,
        producer_ids_max: int = ...,
        producer_expiration_ms: int = ...,
        **settings: bool | int,
    ) -> Self: ...
    def configure(
        self,
        *,
        is_group_commit: bool = True,
        is_plain: bool = True,
        needs_keys: bool = False,
        protocol_flags: int = 0,
        segment_bytes_max: int = ...,
        segment_ms: int = ...,
        segment_jitter_ms: int = 0,
        index_bytes_max: int = ...,
        index_interval_bytes: int = ...,
        is_preallocated: bool = False,
        batch_bytes_max: int = ...,
        before_ms_max: int = ...,
        after_ms_max: int = ...,
        flush_messages: int = ...,
        flush_ms: int = ...,
        min_isr: int = 1,
    ) -> None: ...
    @property
    def protocol_flags(self) -> int: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def open_transactions(self) -> dict[int, int]: ...
    @property
    def producer_count(self) -> int: ...
    @property
    def producer_ends(self) -> list[tuple[int, int, int]]: ...
    def append(self, records: bytes, *, needs_replicas: bool = True) -> AppendResult: ...
    def append_internal(self, batch: bytes) -> int: ...
    def admit_transaction(self, producer_id: int, epoch: int) -> None: ...
    def dismiss_transaction(self, producer_id: int) -> None: ...
    def admits_transaction(self, producer_id: int, epoch: int) -> bool: ...
    def has_batch(self, records: bytes) -> bool: ...
    @property
    def active_producers(self) -> list[tuple[int, int, int, int, int, int]]: ...
    def active_producer(self, producer_id: int) -> tuple[int, int, int, int, int, int] | None: ...
    def producer_snapshot(self) -> tuple[int, bytes]: ...
    def copy(
        self,
        data: bytes,
        *,
        high_watermark: int,
        log_start: int = 0,
        leader_epoch: int | None = None,
    ) -> LogState: ...
    def report(
        self, replica: int, offset: int, replica_epoch: int = -1, *, log_start: int = 0
    ) -> LogState: ...
    def read_for_replica(self, offset: int, size_max: int) -> bytes: ...
    def divergence(self, epoch: int, offset: int) -> tuple[int, int] | None: ...
    def retire(self) -> None: ...
    def release(self) -> None: ...
