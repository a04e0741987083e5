__pyx_capi__: dict[str, object]  # what request_meter.pxd declares
