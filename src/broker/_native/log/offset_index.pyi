# Nothing for Python: the native modules take what they need through offset_index.pxd.

__pyx_capi__: dict[str, object]  # what offset_index.pxd declares
