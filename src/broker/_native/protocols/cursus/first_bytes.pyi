__pyx_capi__: dict[str, object]  # what first_bytes.pxd declares
