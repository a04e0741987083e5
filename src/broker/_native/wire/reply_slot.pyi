# Nothing for Python: the native modules take what they need through reply_slot.pxd.

__pyx_capi__: dict[str, object]  # what reply_slot.pxd declares
