__pyx_capi__: dict[str, object]  # what legacy_message.pxd declares
