"""What Fetch v0-3 has read from one partition so far, as messages."""

from typing import TYPE_CHECKING

from broker.codec import scan_headers
from broker.core.logs.log import Log
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import OLD_FETCH_BYTES_PER_TURN
from broker.model.topic_config import TopicConfig
from broker.protocols.kafka import errors
from broker.protocols.kafka.old_messages import Converter

if TYPE_CHECKING:
    from broker.codec import bodies


class OldPartition:
    """One partition of the request."""

    __slots__ = (
        "_error",
        "_high_watermark",
        "_messages",
        "_next",
        "is_full",
        "log",
        "size",
        "wanted",
    )

    def __init__(self, wanted: "bodies.FetchRequestPartition") -> None:
        """Begin without data."""
        self.wanted = wanted
        self.log: Log | None = None
        self.size = 0  # of the messages
        self.is_full = False
        self._messages: list[bytes] = []
        self._error = ErrorCode.NONE
        self._high_watermark = -1
        self._next = wanted["fetch_offset"]

    @property
    def has_failed(self) -> bool:
        """Whether the response is an error."""
        return self._error is not ErrorCode.NONE

    @property
    def has_more(self) -> bool:
        """Whether the log has data after the last read."""
        return self.log is not None and not self.is_full and self._next < self.log.high_watermark

    @property
    def response(self) -> "bodies.FetchResponsePartition":
        """The partition's part of the response."""
        return {
            "partition_index": self.wanted["partition"],
            "error_code": errors.old_number(self._error),
            "high_watermark": -1 if self.has_failed else self._high_watermark,
            "records": b"".join(self._messages),
        }

    async def read(
        self,
        log: Log,
        config: TopicConfig,
        converter: Converter,
        limit: int,
        *,
        needs_one: bool,
        is_cut: bool,
    ) -> None:
        """Read and convert up to a limit, or to the end of the log.

        Args:
            log: the partition's log.
            config: its topic's.
            converter: of the request.
            limit: the largest size of all messages.
            needs_one: whether to return more than the limit rather than nothing.
            is_cut: whether the last message is cut at the limit; otherwise messages are whole.
        """
        self.log = log
        while not self.is_full:
            if self._messages and self.size >= limit:
                self.is_full = True
                return
            at_least_one = needs_one and (is_cut or self.size == 0)
            data = self._read_log(log, max(limit - self.size, 0), at_least_one=at_least_one)
            if not data:
                return
            whole = memoryview(data)
            for header in scan_headers(data):
                batch = whole[header.position : header.position + header.size]
                messages = await converter.convert(
                    batch, header, self.wanted["fetch_offset"], config
                )
                is_over = self.size + len(messages) > limit
                if is_over and self._messages and not is_cut:
                    self.is_full = True  # whole messages only, at least those of one batch
                    return
                self._next = header.last_offset + 1
                if messages:
                    self._messages.append(messages)
                    self.size += len(messages)
                if is_over and is_cut:
                    self._messages = [b"".join(self._messages)[:limit]]
                    self.size = min(self.size, limit)
                    self.is_full = True
                    return

    def stop_with(self, error: RequestError) -> None:
        """Stop at an error; after messages it is left to the next fetch."""
        if self._messages:
            self.is_full = True
        else:
            self._error = error.code

    def _read_log(self, log: Log, size_max: int, *, at_least_one: bool) -> bytes:
        """Read the next batches of a log; empty at its end."""
        if not log.log_start_offset <= self._next <= log.log_end_offset:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self._high_watermark = end = log.high_watermark
        if self._next >= end:
            return b""
        some = min(size_max, OLD_FETCH_BYTES_PER_TURN)
        try:
            data = log.read(self._next, some, at_least_one or some < size_max, end)
        except StorageError as error:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self.is_full = not data
        return data
