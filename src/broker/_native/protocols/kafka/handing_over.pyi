# Nothing for Python: the native modules take what they need through handing_over.pxd.

__pyx_capi__: dict[str, object]  # what handing_over.pxd declares
