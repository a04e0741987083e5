from typing import final

__pyx_capi__: dict[str, object]  # what publish.pxd declares

@final
class RoundRobin:
    def next(self, partition_count: int) -> int: ...
