# Nothing for Python: the native modules take what they need through earlier_batches.pxd.

__pyx_capi__: dict[str, object]  # what earlier_batches.pxd declares
