# Nothing for Python: the native modules take what they need through replica_table.pxd.

__pyx_capi__: dict[str, object]  # what replica_table.pxd declares
