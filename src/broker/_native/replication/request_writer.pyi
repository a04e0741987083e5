# Nothing for Python: the native modules take what they need through request_writer.pxd.

__pyx_capi__: dict[str, object]  # what request_writer.pxd declares
