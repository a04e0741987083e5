from broker._native.log.partition_log import PartitionLog

def create(log: PartitionLog, base_offset: int = 0) -> None: ...
def attach(
    log: PartitionLog,
    base_offsets: list[int],
    *,
    log_start_offset: int,
    log_end_offset: int,
    epochs: list[tuple[int, int]],
    snapshot: bytes,
) -> bool: ...
def recover(
    log: PartitionLog,
    base_offsets: list[int],
    *,
    log_start_offset: int,
    recovery_point: int,
    epochs: list[tuple[int, int]],
    snapshot: bytes,
    snapshot_offset: int,
    synced_end: int = 0,
    has_gaps: bool = False,
    is_copy: bool = False,
    high_watermark: int = ...,
) -> list[int]: ...
def has_marker(log: PartitionLog, offset: int) -> bool: ...
def detach(log: PartitionLog) -> None: ...
def cut(log: PartitionLog) -> int: ...
def settle(log: PartitionLog, *, is_synced: bool) -> None: ...
def close(log: PartitionLog) -> int: ...
