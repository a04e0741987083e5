from broker._native.wire.connection import NativeProtocol

def detect(protocols: dict[str, NativeProtocol], data: bytes) -> str | None: ...

__pyx_capi__: dict[str, object]  # what detection.pxd declares
