__pyx_capi__: dict[str, object]  # what plain_append.pxd declares
