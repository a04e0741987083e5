"""Which ends of a transaction are allowed, and their effect (KIP-98, KIP-890).

With KIP-890 each end increments the epoch, also an abort by timeout. So a producer whose epoch is
one behind repeats an end whose response was lost. A producer whose transaction was aborted by its
timeout looks the same: its abort succeeds and it continues, its commit is refused (as in Kafka
4.3.1).

Without KIP-890 an abort of a transaction that has not begun is refused, as in Kafka 4.3, although
librdkafka sends one when a crash has lost its AddPartitionsToTxn, and then gives up (its issue
4849).
"""

from typing import Final

from broker.core.transactions.commands import EPOCH_MAX, LAST_EPOCH, EndRequest
from broker.core.transactions.records import NO_ID, TransactionImage, TransactionState
from broker.model.errors import ErrorCode

PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
EPOCH_BUMP_VERSION = 2
_COMMITS = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def is_repeated(image: TransactionImage, request: EndRequest) -> bool:
    """Whether the request repeats an end that has incremented the epoch."""
    _, producer_id, epoch = request.producer
    if not request.bumps_epoch or image.state is TransactionState.EMPTY:
        return False
    if producer_id == image.producer_id:
        return epoch == image.producer_epoch - 1
    is_previous = producer_id == image.previous_producer_id
    return is_previous and image.producer_epoch == 0 and epoch >= LAST_EPOCH


def is_new(image: TransactionImage, request: EndRequest) -> bool:
    """Whether the request has an effect; the epoch for fencing is never returned as a repeat."""
    return not is_repeated(image, request) or image.producer_epoch > LAST_EPOCH


def needs_id(image: TransactionImage, request: EndRequest) -> bool:
    """Whether this end exhausts the epochs of the producer id."""
    return request.bumps_epoch and image.producer_epoch >= LAST_EPOCH


def error_of(image: TransactionImage, request: EndRequest) -> ErrorCode:
    """Return why the holder of the id may not end its transaction so, or not now."""
    again = is_repeated(image, request)
    if image.state is TransactionState.ONGOING:
        if again:
            return ErrorCode.PRODUCER_FENCED  # its next transaction has begun
        is_stuck = needs_id(image, request) and request.fresh_producer_id == NO_ID
        return ErrorCode.CONCURRENT_TRANSACTIONS if is_stuck else ErrorCode.NONE
    is_prepared = image.state in PREPARED
    if request.bumps_epoch and not again:
        # Nothing was added since the last end: such an abort is allowed, such a commit is not.
        if is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.INVALID_TXN_STATE if request.is_commit else ErrorCode.NONE
    is_same = (image.state in _COMMITS) == request.is_commit
    if image.state is TransactionState.EMPTY or not is_same:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if is_prepared else ErrorCode.NONE


def prepared(
    image: TransactionImage,
    wall_ms: int,
    *,
    is_commit: bool,
    is_fence: bool,
    bumps_epoch: bool,
    next_producer_id: int,
) -> TransactionImage:
    """Return the image of the decision; its epoch fences the producer, or lets it continue.

    Its client version is EPOCH_BUMP_VERSION only if its epoch is above that of the transaction.
    """
    kept = image.client_version if is_fence else 0
    return image._replace(
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        producer_epoch=min(EPOCH_MAX, image.producer_epoch + (is_fence or bumps_epoch)),
        next_producer_id=next_producer_id if bumps_epoch else NO_ID,
        updated_ms=wall_ms,
        client_version=EPOCH_BUMP_VERSION if bumps_epoch else kept,
    )


def next_holder(image: TransactionImage) -> tuple[int, int]:
    """Return the producer id and epoch of the next transaction."""
    if image.next_producer_id != NO_ID:
        return image.next_producer_id, 0
    return image.producer_id, image.producer_epoch


def rotated(image: TransactionImage, producer_id: int) -> TransactionImage:
    """Return the image with a new producer id, since the epochs of the old one are exhausted."""
    return image._replace(
        producer_id=producer_id,
        producer_epoch=0,
        previous_producer_id=image.producer_id,
        next_producer_id=NO_ID,
    )
