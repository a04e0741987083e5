__pyx_capi__: dict[str, object]  # what rows.pxd declares
