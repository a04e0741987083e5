from typing_extensions import Buffer

__pyx_capi__: dict[str, object]  # what record_checks.pxd declares

def keyless(data: Buffer, count: int, places_max: int) -> list[int]: ...
