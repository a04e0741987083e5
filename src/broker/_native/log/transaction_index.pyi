# Nothing for Python: the native modules take what they need through transaction_index.pxd.

__pyx_capi__: dict[str, object]  # what transaction_index.pxd declares
