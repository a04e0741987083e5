"""The acknowledgement of records: JSON with all keys of the original document, in its order.

`leader` is the address by which the client has reached this broker, which serves or forwards
whatever it sends here.

Some clients search for `"key":` without a space after the colon, and read a string up to the next
quotation mark, escaped or not. So strings contain no quotation marks.
"""

import json
from typing import Final, NamedTuple

from broker.protocols.cursus.errors import RefusedError, without_quotes

# The response to acks=0. Not every client reads it; those that do look at the status only.
UNACKNOWLEDGED: Final = b'{"status":"OK"}'


class Sent(NamedTuple):
    """The fields of a batch, or of one message, that its acknowledgement repeats."""

    producer_id: str = ""
    epoch: int = 0
    seq_start: int = 0
    seq_end: int = 0


def stored(sent: Sent, last_offset: int, leader: bytes) -> bytes:
    """Return the acknowledgement of records that can be read."""
    return _ack("OK", sent, last_offset, leader, "")


def failed(sent: Sent, refusal: RefusedError, leader: bytes) -> bytes:
    """Return the error of records of which none was stored."""
    return _ack("ERROR", sent, 0, leader, f"{refusal.code} {refusal.rest}".strip())


def led_here(answer: bytes, leader: bytes) -> bytes:
    """Return another broker's acknowledgement, with this broker as the leader."""
    return answer.replace(b'"leader":""', b'"leader":"%b"' % leader, 1)


def _ack(status: str, sent: Sent, last_offset: int, leader: bytes, error: str) -> bytes:
    producer_id = sent.producer_id.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    fields = {
        "status": status,
        "last_offset": last_offset,
        "producer_epoch": sent.epoch,
        "producer_id": without_quotes(producer_id),
        "seq_start": sent.seq_start,
        "seq_end": sent.seq_end,
        "leader": leader.decode(),
        "error": without_quotes(error),
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
