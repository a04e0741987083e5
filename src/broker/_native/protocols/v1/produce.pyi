__pyx_capi__: dict[str, object]  # what v1_produce.pxd declares
