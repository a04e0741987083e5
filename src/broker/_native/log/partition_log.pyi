from logging import Logger
from typing import Self, final

from broker._native.log.segmented_log import SegmentedLog
from broker._native.log.turn import Turn

logger: Logger

@final
class PartitionLog(SegmentedLog):
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
        segment_bytes_max: int = ...,
        segment_ms: int = ...,
        segment_jitter_ms: int = 0,
        index_bytes_max: int = ...,
        index_interval_bytes: int = ...,
        is_preallocated: bool = False,
        batch_bytes_max: int = ...,
        behind_ms_max: int = ...,
        ahead_ms_max: int = ...,
        flush_messages: int = ...,
        flush_ms: int = ...,
    ) -> None: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def durable_end(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def open_transactions(self) -> dict[int, int]: ...
    @property
    def is_group_commit(self) -> bool: ...
    @property
    def flush_ms(self) -> int: ...
    @property
    def unsealed_count(self) -> int: ...
    @property
    def has_unsynced_indexes(self) -> bool: ...
    @property
    def needs_sync(self) -> bool: ...
    @property
    def producer_count(self) -> int: ...
    @property
    def producer_ends(self) -> list[tuple[int, int, int]]: ...
    def append(self, records: bytes) -> tuple[int | tuple[str, int], int]: ...
    def append_internal(self, batch: bytes) -> int: ...
    def roll(self) -> bool: ...
    def sync_indexes(self) -> None: ...
    def producer_snapshot(self) -> tuple[int, bytes]: ...
    def take_offline(self, reason: str) -> None: ...
    def retire(self) -> None: ...
