__pyx_capi__: dict[str, object]  # what cursus_produce.pxd declares
