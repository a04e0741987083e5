"""The fuzz targets: a name, and a function that must not raise for any input.

    python -m tests.fuzz.targets batch FILE...    # one input again, on whatever build is installed

A target allows CodecError and nothing else, compares the results of several functions for the same
bytes, and checks that the codec stays within its limits. Time and memory are limited from outside:
by libFuzzer in `make fuzz`, by test_corpus.py in the suite.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

TARGETS: Final[dict[str, str]] = {
    "batch": "batch_targets.batch",
    "compressed_batch": "batch_targets.compressed_batch",
    "message_set": "batch_targets.batch",  # other initial inputs
    "compressed_message_set": "batch_targets.compressed_message_set",
    "compaction": "compaction_target.compaction",
    "preparation": "preparation_target.preparation",
    "conversion": "conversion_target.conversion",
    "encode_rows": "encode_targets.encode_rows",
    "encode_columns": "encode_targets.encode_columns",
    "gzip": "compression_targets.gzip",
    "snappy": "compression_targets.snappy",
    "xerial": "compression_targets.xerial",
    "lz4": "compression_targets.lz4",
    "zstd": "compression_targets.zstd",
    "request": "message_targets.request",
    "response": "message_targets.response",
    "record": "message_targets.record",
    "frame": "message_targets.frame",
    "coordinator_record": "message_targets.coordinator_record",
    "consumer_protocol": "message_targets.consumer_protocol",
    "connection": "connection_target.connection",
    "rustlog": "rustlog_target.rustlog",
    "cursus_batch": "cursus_target.cursus_batch",
    "login": "login_target.login",
    "before_login": "before_login_target.before_login",
    "segment": "segment_targets.segment",
}


def load(name: str) -> Callable[[bytes], None]:
    """Import a target, and no more of the codec than it needs."""
    module, _, function = TARGETS[name].partition(".")
    found: Callable[[bytes], None] = getattr(import_module(f"tests.fuzz.{module}"), function)
    return found


if __name__ == "__main__":
    for path in sys.argv[2:]:
        load(sys.argv[1])(Path(path).read_bytes())
