__pyx_capi__: dict[str, object]  # what event_append.pxd declares
