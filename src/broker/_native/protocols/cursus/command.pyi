__pyx_capi__: dict[str, object]  # what command.pxd declares
