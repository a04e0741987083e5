# Nothing for Python: the native modules take what they need through reply_reader.pxd.

__pyx_capi__: dict[str, object]  # what reply_reader.pxd declares
