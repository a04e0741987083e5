__pyx_capi__: dict[str, object]  # what histogram.pxd declares
BOUNDS_US: tuple[int, ...]

def bucket_of(us: int) -> int: ...
