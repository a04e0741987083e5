from collections.abc import Container

__pyx_capi__: dict[str, object]  # what transaction_index.pxd declares

def select_entries(data: bytes, chosen: Container[tuple[int, int, int]]) -> bytes: ...
