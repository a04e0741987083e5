# Nothing for Python: recovery takes what it needs through log_scan.pxd.

__pyx_capi__: dict[str, object]  # what log_scan.pxd declares
