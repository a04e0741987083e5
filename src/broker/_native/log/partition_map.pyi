# Nothing for Python: the native modules take what they need through partition_map.pxd.

__pyx_capi__: dict[str, object]  # what partition_map.pxd declares
