from typing import final

PLACE_BYTES: int  # of memory per slot; at most three quarters of the slots are used

@final
class KeyMap:
    capacity: int
    count: int
    end_offset: int
    def __new__(cls, memory_bytes: int, secret: bytes | None = None) -> KeyMap: ...
    def __len__(self) -> int: ...
    def get(self, key: bytes) -> int: ...

def key_hash(secret: bytes, key: bytes) -> bytes: ...
