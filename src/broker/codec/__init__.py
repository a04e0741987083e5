"""Decode and encode Kafka's records and messages, without a broker.

    >>> from broker import codec
    >>> [batch] = codec.encode(
    ...     [(b"key", b"value"), (None, b"other")], timestamp_ms=1_700_000_000_000
    ... )
    >>> [(record.offset, record.key, record.value) for record in codec.records(batch)]
    [(0, b'key', b'value'), (1, None, b'other')]
    >>> codec.decode_columns(batch).to_arrow(topic="clicks", partition=0).schema.names
    ['key', 'value', 'topic', 'partition', 'offset', 'timestamp']

Records: `decode_columns` (numbers and spans, for numpy and Arrow), `records` (objects, lazily),
`scan_headers`, `validate`, `audit`; `encode` writes batches; `up_convert` and `down_convert`
convert between batches (magic 2) and message sets (magic 0 and 1). `compress` and `decompress` have
Kafka's four compression types.

Messages: `decode_request`, `decode_response`, `encode_request` and `encode_response` for the bodies
of every API and version; `frames`, `read_request`, `read_response`, `request_frame` and
`response_frame` for the bytes of a connection; `error_of` for error codes; coordinator records and
the consumer protocol.

Hashes: `crc32c`, `crc32`, `murmur2`, `partition`; over columns `murmur2_column`,
`partition_column`, `xxh3_64_column`.

Bytes that cannot be read raise CodecError: Truncated, Corrupt, Unsupported or LimitExceeded, with
a `reason` and a `position`:

    >>> codec.validate(batch[:-1])
    Traceback (most recent call last):
    ...
    broker.model.errors.Truncated: batch: 87 bytes are no whole batch at byte 0

Importing this module imports neither numpy nor pyarrow nor a compression package; the extra
`polylog-broker[codec]` installs them.
"""

from broker._native.records.batch_scan import Audit
from broker._native.records.record_view import Record
from broker.codec.columns import Columns, decode_columns, records, validate
from broker.codec.compression import compress, decompress, decompress_into
from broker.codec.convert import down_convert, up_convert
from broker.codec.coordinator_records import (
    CoordinatorRecord,
    Embedded,
    decode_assignment,
    decode_group_record,
    decode_subscription,
    decode_transaction_record,
    encode_assignment,
    encode_coordinator_record,
    encode_subscription,
)
from broker.codec.encoding import encode
from broker.codec.errors import ERRORS, KafkaError, error_named, error_of
from broker.codec.hashes import (
    Spans,
    crc32,
    crc32c,
    murmur2,
    murmur2_column,
    partition,
    partition_column,
    xxh3_64_column,
)
from broker.codec.headers import BatchHeader, BatchHeaders, audit, scan_headers
from broker.codec.messages import (
    Decoded,
    Frames,
    Request,
    RequestHeader,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    frames,
    read_request,
    read_request_header,
    read_response,
    request_frame,
    response_frame,
)
from broker.codec.schema import API_KEYS, Fields
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated, Unsupported

__all__ = [
    "API_KEYS",
    "ERRORS",
    "Audit",
    "BatchHeader",
    "BatchHeaders",
    "CodecError",
    "Columns",
    "CoordinatorRecord",
    "Corrupt",
    "Decoded",
    "Embedded",
    "Fields",
    "Frames",
    "KafkaError",
    "LimitExceeded",
    "Record",
    "Request",
    "RequestHeader",
    "Response",
    "Spans",
    "Truncated",
    "Unsupported",
    "audit",
    "compress",
    "crc32",
    "crc32c",
    "decode_assignment",
    "decode_columns",
    "decode_group_record",
    "decode_request",
    "decode_response",
    "decode_subscription",
    "decode_transaction_record",
    "decompress",
    "decompress_into",
    "down_convert",
    "encode",
    "encode_assignment",
    "encode_coordinator_record",
    "encode_request",
    "encode_response",
    "encode_subscription",
    "error_named",
    "error_of",
    "frames",
    "murmur2",
    "murmur2_column",
    "partition",
    "partition_column",
    "read_request",
    "read_request_header",
    "read_response",
    "records",
    "request_frame",
    "response_frame",
    "scan_headers",
    "up_convert",
    "validate",
    "xxh3_64_column",
]
