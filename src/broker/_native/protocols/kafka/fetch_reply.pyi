# Nothing for Python: the native modules take what they need through fetch_reply.pxd.

__pyx_capi__: dict[str, object]  # what fetch_reply.pxd declares
