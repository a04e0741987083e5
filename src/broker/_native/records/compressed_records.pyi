__pyx_capi__: dict[str, object]  # what compressed_records.pxd declares
