HAS_NAMED_PRODUCERS: int
SPREADS_KEYS: int
HAS_STREAMS: int

__pyx_capi__: dict[str, object]  # what cursus_produce.pxd declares
