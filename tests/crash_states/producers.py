"""The producers of one log, as far as the log does not know them."""

from tests.crash_states.expected_state import ABORT, COMMIT, TRANSACTIONAL, ExpectedLog


class Producer:
    """An idempotent producer of one log."""

    def __init__(self, producer_id: int, *, is_transactional: bool) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.is_transactional = is_transactional
        self.is_open = False
        self.last: bytes = b""
        self.last_end = 0


def producers_of(known: ExpectedLog, start: int, end: int, others: set[int]) -> list[Producer]:
    """Return the producers that continue after a start: those whose last batch it has recovered.

    Of one whose batches were deleted a start may know nothing, or only what a marker says.
    """
    found: dict[int, Producer] = {}
    deleted: set[int] = set()
    for sent in known.sent:
        if sent.end > end or sent.producer_id < 0 or sent.producer_id in others:
            continue
        if sent.kind in (COMMIT, ABORT):
            found[sent.producer_id].is_open = False
            continue
        (deleted.add if sent.base < start else deleted.discard)(sent.producer_id)
        producer = found.setdefault(
            sent.producer_id,
            Producer(sent.producer_id, is_transactional=sent.kind == TRANSACTIONAL),
        )
        producer.sequence = sent.sequence + sent.end - sent.base
        producer.last, producer.last_end = sent.batch, sent.end
        producer.is_open = sent.kind == TRANSACTIONAL
    return [producer for each, producer in found.items() if each not in deleted]
