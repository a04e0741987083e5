# Nothing for Python: the native modules take what they need through time_lookup.pxd.

__pyx_capi__: dict[str, object]  # what time_lookup.pxd declares
