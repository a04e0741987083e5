__pyx_capi__: dict[str, object]  # what folded_records.pxd declares
