# Nothing for Python: the native modules take what they need through output_queue.pxd.

__pyx_capi__: dict[str, object]  # what output_queue.pxd declares
