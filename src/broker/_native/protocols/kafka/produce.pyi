# Nothing for Python: the native modules take what they need through produce.pxd.

__pyx_capi__: dict[str, object]  # what produce.pxd declares
