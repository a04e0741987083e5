# Nothing for Python: the native modules take what they need through old_produce.pxd.

__pyx_capi__: dict[str, object]  # what old_produce.pxd declares
