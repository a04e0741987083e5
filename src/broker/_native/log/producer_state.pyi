# Nothing for Python: the native modules take what they need through producer_state.pxd.

__pyx_capi__: dict[str, object]  # what producer_state.pxd declares
