# Nothing for Python: recovery takes what it needs through recovery_scan.pxd.

__pyx_capi__: dict[str, object]  # what recovery_scan.pxd declares
