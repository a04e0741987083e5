"""What a producer is told: JSON, with every key of the original document in its order.

Some clients look for `"key":` without a blank behind the colon and read a text up to the next
quotation mark, so none stands within one, however a JSON reader would take it.
"""

import json
from typing import Final, NamedTuple

from broker.protocols.cursus.errors import Refusal, without_quotes

_OK: Final = "OK"
_ERROR: Final = "ERROR"
# To acks=0: not every client reads it. Those that do look for the status alone.
UNACKNOWLEDGED: Final = b'{"status":"OK"}'


class Sent(NamedTuple):
    """What of a batch, or of one message, its answer says again."""

    producer_id: str = ""
    epoch: int = 0
    seq_start: int = 0
    seq_end: int = 0


def stored(sent: Sent, last_offset: int) -> bytes:
    """All of it can be read."""
    return _ack(_OK, sent, last_offset, "")


def failed(sent: Sent, refusal: Refusal) -> bytes:
    """Nothing of it was stored."""
    return _ack(_ERROR, sent, 0, f"{refusal.code} {refusal.rest}".strip())


def _ack(status: str, sent: Sent, last_offset: int, error: str) -> bytes:
    producer_id = sent.producer_id.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    fields = {
        "status": status,
        "last_offset": last_offset,
        "producer_epoch": sent.epoch,
        "producer_id": without_quotes(producer_id),
        "seq_start": sent.seq_start,
        "seq_end": sent.seq_end,
        "leader": "",
        "error": without_quotes(error),
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
