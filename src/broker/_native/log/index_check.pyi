# Nothing for Python: segment_check takes what it needs through index_check.pxd.

__pyx_capi__: dict[str, object]  # what index_check.pxd declares
