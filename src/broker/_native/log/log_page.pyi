# Nothing for Python: the native modules take what they need through log_page.pxd.

__pyx_capi__: dict[str, object]  # what log_page.pxd declares
