# Nothing for Python: the native modules take what they need through sampled_rate.pxd.

__pyx_capi__: dict[str, object]  # what sampled_rate.pxd declares
