# Nothing for Python: recovery takes what it needs through log_scan.pxd.

from typing_extensions import disjoint_base

__pyx_capi__: dict[str, object]  # what log_scan.pxd declares

@disjoint_base
class Chunk: ...
