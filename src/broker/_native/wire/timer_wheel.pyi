# Nothing for Python: the native modules take what they need through timer_wheel.pxd.

__pyx_capi__: dict[str, object]  # what timer_wheel.pxd declares
