# Nothing for Python: the native modules take what they need through list_offsets.pxd.

__pyx_capi__: dict[str, object]  # what list_offsets.pxd declares
