# Nothing for Python: the native modules take what they need through envelope.pxd.

__pyx_capi__: dict[str, object]  # what envelope.pxd declares
