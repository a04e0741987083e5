"""Preparation of a batch before its append: validated, and compressed as its topic asks.

Most topics store batches as they are sent. Of those, uncompressed ones need nothing here, for the
log itself walks their records; compressed ones are decompressed and walked, as in Kafka, so that no
consumer meets one that it cannot read. A compacted topic refuses records without a key. A topic
with a compression.type other than "producer" stores every batch with that codec, as in Kafka: a
batch that has it already stays as it is, whatever its level. The bytes of the records do not
change; length, attributes and CRC of the batch do.

A megabyte takes milliseconds to decompress and compress, so that happens in a thread of its own,
which releases the interpreter lock while a library works. One batch at a time is decompressed; the
others wait as they were sent: per connection the batches of one request, and in all a limited
number of bytes.
"""

from asyncio import Semaphore, get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from struct import Struct
from typing import NamedTuple, Protocol, TypeVar

from broker._native.kernel.checksum import crc32c
from broker._native.records.record_batch import validate
from broker._native.records.record_checks import keyless
from broker.codec.compression import compress, decompress
from broker.core.logs.partition import ATTRIBUTES_POSITION, BATCH_HEADER_BYTES
from broker.core.scheduling.tasks import Tasks
from broker.model import limits
from broker.model.compressions import BY_NAME, COMPRESSIONS, GZIP, LZ4, NONE, ZSTD, Compression
from broker.model.errors import CodecError, ErrorCode, LimitExceeded, RequestError, Unsupported
from broker.model.topic_config import TopicConfig

_T = TypeVar("_T")

_KEEP = "producer"
_PLAIN = "uncompressed"
_CODEC = 0x07
_ATTRIBUTES = Struct(">h")
_LENGTH_POSITION, _LENGTH_END = 8, 12
_CRC_POSITION = 17
_COUNT_POSITION = 57
_INT32 = Struct(">i")
_UINT32 = Struct(">I")


class KeylessRecordsError(RequestError):
    """A compacted topic was sent records without a key; `places` has the first of them."""

    def __init__(self, places: list[int]) -> None:
        """Keep the places, counted from 0 in the batch."""
        super().__init__(ErrorCode.INVALID_RECORD, "a compacted topic takes no record without key")
        self.places = places


class RecompressionJob(Protocol):
    """Work on a client's records in the thread, before they are appended."""

    @property
    def records(self) -> bytes:
        """The batch as it was sent."""

    def run(self) -> bytes:
        """Return the batch to be appended; RequestError when the records are invalid."""


class Preparation(NamedTuple):
    """A batch with a valid header that has to be validated or recompressed."""

    records: bytes
    came: Compression
    stored: Compression
    level: int | None
    needs_keys: bool
    decompressed_bytes_limit: int

    @property
    def is_slow(self) -> bool:
        """Whether it needs a codec, and so the thread."""
        return self.came is not NONE or self.stored is not NONE

    def run(self) -> bytes:
        """Return the batch to be appended; RequestError when its records are invalid."""
        plain = self._decompressed()
        (count,) = _INT32.unpack_from(self.records, _COUNT_POSITION)
        try:
            places = keyless(plain, count, limits.RECORD_ERRORS_MAX)
        except CodecError as error:
            raise RequestError(ErrorCode.INVALID_RECORD, str(error)) from None
        if self.needs_keys and places:
            raise KeylessRecordsError(places)
        if self.came is self.stored:
            return self.records
        try:
            body = compress(self.stored.number, plain, self.level)
        except Unsupported as error:
            raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
        return _with_body(self.records[:BATCH_HEADER_BYTES], self.stored, body)

    def _decompressed(self) -> bytes:
        compressed = memoryview(self.records)[BATCH_HEADER_BYTES:]
        try:
            return decompress(
                self.came.number, compressed, self.decompressed_bytes_limit, strict=True
            )
        except LimitExceeded as error:
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
        except CodecError as error:
            # The code of Kafka's validator (KafkaException); no producer retries it.
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def prepare(config: TopicConfig, records: bytes) -> Preparation | None:
    """Return what has to be done with a client's batch before the append; None for most.

    Also None for a batch that the append will refuse: the append has the error.
    """
    if len(records) < BATCH_HEADER_BYTES or len(records) > config.integer("max.message.bytes"):
        return None
    (attributes,) = _ATTRIBUTES.unpack_from(records, ATTRIBUTES_POSITION)
    codec = attributes & _CODEC
    if codec >= len(COMPRESSIONS):
        return None
    came = COMPRESSIONS[codec]
    preparation = _preparation(config, records, came, _stored(config, came))
    return preparation if preparation is not None and validate(records) is None else None


def compress_batch(config: TopicConfig, records: bytes, came: Compression) -> bytes:
    """Return the batch to be appended for a decompressed one; `came` is its producer's codec.

    Raises RequestError as `Preparation.run`.
    """
    preparation = _preparation(config, records, NONE, _stored(config, came))
    return records if preparation is None else preparation.run()


def needs_compression(config: TopicConfig, came: Compression) -> bool:
    """Whether `compress_batch` needs a codec, and so the thread."""
    return _stored(config, came) is not NONE


def _preparation(
    config: TopicConfig, records: bytes, came: Compression, stored: Compression
) -> Preparation | None:
    needs_keys = "compact" in config.words("cleanup.policy")
    if came is NONE and stored is NONE and not needs_keys:
        return None
    return Preparation(
        records,
        came,
        stored,
        _level(config, stored),
        needs_keys,
        limits.decompressed_bytes_max(config.integer("max.message.bytes")),
    )


class Recompression:
    """Runs slow preparations, one after the other, in a thread."""

    def __init__(self) -> None:
        """Create the executor; the thread starts with its first batch."""
        self._executor = ThreadPoolExecutor(
            limits.RECOMPRESSION_THREADS, thread_name_prefix="broker-recompression"
        )
        self._slots = Semaphore(limits.RECOMPRESSION_THREADS)
        self._tasks = Tasks()
        self._waiting_bytes = 0

    async def append(self, preparation: RecompressionJob, append: Callable[[bytes], _T]) -> _T:
        """Append a batch once it is prepared, even if its producer has disconnected by then.

        Raises RequestError as `Preparation.run` and as `append`, which is called on the loop, and
        when too many bytes are waiting already.
        """
        self._reserve(len(preparation.records))
        work = self._run(len(preparation.records), preparation.run, append)
        return await self._tasks.run_to_completion(work)

    async def decompress(self, codec: int, compressed: bytes, size_max: int) -> bytes:
        """Decompress bytes that a protocol compresses in its own way, to at most `size_max`.

        CodecError when they are invalid, RequestError when too many bytes are waiting already.
        """
        self._reserve(len(compressed))
        work = partial(decompress, codec, compressed, size_max)
        return await self._tasks.run_to_completion(self._run(len(compressed), work, bytes))

    def _reserve(self, size: int) -> None:
        if self._waiting_bytes + size > limits.RECOMPRESSION_WAITING_BYTES_MAX:
            text = "too many bytes of batches wait to be compressed"
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, text)
        self._waiting_bytes += size

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run other slow work on records, for readers, in the thread."""
        async with self._slots:
            return await get_running_loop().run_in_executor(self._executor, work)

    async def _run(self, size: int, work: Callable[[], bytes], then: Callable[[bytes], _T]) -> _T:
        try:
            async with self._slots:
                return then(await get_running_loop().run_in_executor(self._executor, work))
        finally:
            self._waiting_bytes -= size

    def stop(self) -> None:
        """Finish the current batch and end the thread."""
        self._executor.shutdown()


def _stored(config: TopicConfig, came: Compression) -> Compression:
    name = config.text("compression.type")
    if name == _KEEP:
        return came
    return NONE if name == _PLAIN else BY_NAME[name]


def _level(config: TopicConfig, stored: Compression) -> int | None:
    if stored is GZIP:
        return config.integer("compression.gzip.level")
    if stored is LZ4:
        return config.integer("compression.lz4.level")
    return config.integer("compression.zstd.level") if stored is ZSTD else None


def _with_body(header: bytes, stored: Compression, body: bytes) -> bytes:
    """Return the batch with a new body and codec, and with its length and CRC."""
    batch = bytearray(header + body)
    _INT32.pack_into(batch, _LENGTH_POSITION, len(batch) - _LENGTH_END)
    batch[ATTRIBUTES_POSITION + 1] = batch[ATTRIBUTES_POSITION + 1] & ~_CODEC | stored.number
    _UINT32.pack_into(batch, _CRC_POSITION, crc32c(bytes(batch[ATTRIBUTES_POSITION:])))
    return bytes(batch)
