"""Files as the original RustLog leaves them, made from docs/protocols/rustlog-files.md."""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

TIME_MS = 1_790_000_000_000


def segment(folder: Path, first: int, payloads: Iterable[bytes], tail: bytes = b"") -> Path:
    """Write a file of records with consecutive offsets."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{first:020}.log"
    data = b"".join(
        struct.pack(">IQ", len(payload), offset) + payload
        for offset, payload in enumerate(payloads, first)
    )
    file.write_bytes(data + tail)
    (folder / f"{first:020}.index").write_bytes(b"")
    os.utime(file, (TIME_MS / 1000, TIME_MS / 1000))
    return file
