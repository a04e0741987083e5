from typing import Self, final

from broker._native.log.partition_log import PartitionLog

__pyx_capi__: dict[str, object]  # what topic_table.pxd declares

@final
class TopicEntry:
    def __new__(
        cls,
        name: str,
        topic_id: bytes,
        logs: list[PartitionLog | None],
        followed: dict[int, PartitionLog] | None,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def logs(self) -> list[PartitionLog | None]: ...
    @property
    def followed(self) -> dict[int, PartitionLog] | None: ...

@final
class TopicTable:
    brokers: dict[int, int] | None
    racks: dict[int, bytes]
    def add(
        self,
        name: str,
        topic_id: bytes,
        logs: list[PartitionLog | None],
        followed: dict[int, PartitionLog] | None = None,
    ) -> None: ...
    def remove(self, name: str) -> None: ...
    def find(self, name_or_id: str | bytes) -> TopicEntry | None: ...
    def __len__(self) -> int: ...
