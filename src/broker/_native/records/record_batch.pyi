__pyx_capi__: dict[str, object]  # what record_batch.pxd declares

STATUS_TEXTS: dict[int, str]  # what is wrong with a batch, by its BatchStatus

def validate(data: bytes) -> str | None: ...
