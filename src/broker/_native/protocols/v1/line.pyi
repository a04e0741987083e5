__pyx_capi__: dict[str, object]  # what v1_line.pxd declares
