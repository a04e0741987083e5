__pyx_capi__: dict[str, object]  # what unseen_writes.pxd declares
