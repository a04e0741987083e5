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

# "as" with the same name marks what this module exports (PEP 484).
from broker._native.records.batch_scan import Audit as Audit
from broker._native.records.record_view import Record as Record
from broker.codec.columns import Columns as Columns
from broker.codec.columns import decode_columns as decode_columns
from broker.codec.columns import records as records
from broker.codec.columns import validate as validate
from broker.codec.compression import compress as compress
from broker.codec.compression import decompress as decompress
from broker.codec.compression import decompress_into as decompress_into
from broker.codec.convert import down_convert as down_convert
from broker.codec.convert import up_convert as up_convert
from broker.codec.coordinator_records import CoordinatorRecord as CoordinatorRecord
from broker.codec.coordinator_records import Embedded as Embedded
from broker.codec.coordinator_records import decode_assignment as decode_assignment
from broker.codec.coordinator_records import decode_group_record as decode_group_record
from broker.codec.coordinator_records import decode_subscription as decode_subscription
from broker.codec.coordinator_records import decode_transaction_record as decode_transaction_record
from broker.codec.coordinator_records import encode_assignment as encode_assignment
from broker.codec.coordinator_records import encode_coordinator_record as encode_coordinator_record
from broker.codec.coordinator_records import encode_subscription as encode_subscription
from broker.codec.encoding import encode as encode
from broker.codec.errors import ERRORS as ERRORS
from broker.codec.errors import KafkaError as KafkaError
from broker.codec.errors import error_named as error_named
from broker.codec.errors import error_of as error_of
from broker.codec.hashes import Spans as Spans
from broker.codec.hashes import crc32 as crc32
from broker.codec.hashes import crc32c as crc32c
from broker.codec.hashes import murmur2 as murmur2
from broker.codec.hashes import murmur2_column as murmur2_column
from broker.codec.hashes import partition as partition
from broker.codec.hashes import partition_column as partition_column
from broker.codec.hashes import xxh3_64_column as xxh3_64_column
from broker.codec.headers import BatchHeader as BatchHeader
from broker.codec.headers import BatchHeaders as BatchHeaders
from broker.codec.headers import audit as audit
from broker.codec.headers import scan_headers as scan_headers
from broker.codec.messages import Decoded as Decoded
from broker.codec.messages import Frames as Frames
from broker.codec.messages import Request as Request
from broker.codec.messages import RequestHeader as RequestHeader
from broker.codec.messages import Response as Response
from broker.codec.messages import decode_request as decode_request
from broker.codec.messages import decode_response as decode_response
from broker.codec.messages import encode_request as encode_request
from broker.codec.messages import encode_response as encode_response
from broker.codec.messages import frames as frames
from broker.codec.messages import read_request as read_request
from broker.codec.messages import read_request_header as read_request_header
from broker.codec.messages import read_response as read_response
from broker.codec.messages import request_frame as request_frame
from broker.codec.messages import response_frame as response_frame
from broker.codec.schema import API_KEYS as API_KEYS
from broker.codec.schema import Fields as Fields
from broker.model.errors import CodecError as CodecError
from broker.model.errors import Corrupt as Corrupt
from broker.model.errors import LimitExceeded as LimitExceeded
from broker.model.errors import Truncated as Truncated
from broker.model.errors import Unsupported as Unsupported
