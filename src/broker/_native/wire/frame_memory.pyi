# Nothing for Python: the native modules take what they need through frame_memory.pxd.

__pyx_capi__: dict[str, object]  # what frame_memory.pxd declares
