"""Kafka's bytes to values and back, without a broker.

Records in batches or message sets: decode_columns, records, scan_headers, validate, audit.
Records to batches: encode. Between the magics: up_convert, down_convert.
Errors: CodecError, whose kinds are Truncated, Corrupt, Unsupported and LimitExceeded.
"""

from broker._native.records.batch_scan import Audit
from broker._native.records.record_view import Record
from broker.codec.columns import Columns, decode_columns, records, validate
from broker.codec.convert import down_convert, up_convert
from broker.codec.encoding import encode
from broker.codec.headers import BatchHeader, BatchHeaders, audit, scan_headers
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported

__all__ = [
    "Audit",
    "BatchHeader",
    "BatchHeaders",
    "CodecError",
    "Columns",
    "Corrupt",
    "LimitExceeded",
    "Record",
    "Truncated",
    "Unsupported",
    "audit",
    "decode_columns",
    "down_convert",
    "encode",
    "records",
    "scan_headers",
    "up_convert",
    "validate",
]
