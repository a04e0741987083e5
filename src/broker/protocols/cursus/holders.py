"""The holder of a transactional id: a command's producer compared with the coordinator's state.

Clients identify a producer by `txn-`, the sixteen hex digits of an internal producer id, and an
epoch. INIT_PRODUCER_ID returns the next epoch and fences producers with older ones. A producer
whose transaction timed out, or was open at a restart, is not fenced: the abort used an epoch that
no producer has, and its commands are answered with transaction_aborted until it is initialised
again.
"""

import re
from typing import Final, NamedTuple

from broker.core.broker import Broker
from broker.core.forwarding import check_transactional
from broker.core.topics.topic import TRANSACTIONS_TOPIC
from broker.core.transactions.commands import Producer, TransactionDescription
from broker.core.transactions.names import CURSUS
from broker.core.transactions.records import TransactionState
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import ERROR_TEXT_CHARS_MAX, TRANSACTIONAL_ID_BYTES_MAX
from broker.protocols.cursus.errors import UNAVAILABLE, RefusedError
from broker.protocols.cursus.grammar import TRANSACTION_NAMES, Command, integer
from broker.protocols.cursus.requests import Request
from broker.protocols.cursus.staged import Staged

_PRODUCER_NAMES: Final = ("producerId", "producer_id")
_NAME_BYTES_MAX: Final = TRANSACTIONAL_ID_BYTES_MAX - len(CURSUS)
_PRODUCER_ID: Final = re.compile(r"txn-([0-9a-f]{16})")
_INT64: Final = range(-(1 << 63), 1 << 63)
_ABORTED: Final = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


class Holder(NamedTuple):
    """A producer that holds its transactional id, or did until its transaction was aborted."""

    name: str  # the transactional id as the client knows it
    producer: Producer
    producer_id: str  # as the client knows it
    state: TransactionState
    staged: Staged | None  # of this transaction, or of the last one
    is_aborted: bool  # its transaction was aborted, and it has to be initialised again

    @property
    def is_open(self) -> bool:
        """Return whether its transaction is open."""
        return self._is_ongoing and self.staged is not None

    @property
    def is_abandoned(self) -> bool:
        """Return whether its transaction is aborted, or is from before a restart and will be."""
        return self.is_aborted or (self._is_ongoing and self.staged is None)

    @property
    def _is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING and not self.is_aborted


def name_of(request: Request) -> str:
    """Return the command's transactional id, which clients pass under one of three names.

    Raises ElsewhereError if another broker is its coordinator.
    """
    name = _name_of(request.command)
    check_transactional(request.session, inner_name(name))
    return name


def _name_of(command: Command) -> str:
    name = next(filter(None, map(command.get, TRANSACTION_NAMES)), "")
    if not name:
        raise RefusedError("missing_transactional_id", command=command.keyword)
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise RefusedError("invalid_transactional_id", detail="it is no text") from None
    if size > _NAME_BYTES_MAX:
        raise RefusedError("invalid_transactional_id", detail=f"at most {_NAME_BYTES_MAX} bytes")
    return name


def inner_name(name: str) -> str:
    """Return the coordinator's transactional id, whose prefix no Kafka client may use."""
    return CURSUS + name


def shown_id(producer_id: int) -> str:
    """Return a producer id as clients know it."""
    return f"txn-{producer_id:016x}"


def producer_of(command: Command, transactional_id: str) -> Producer:
    """Return the producer that a command of another broker names by its internal id."""
    producer_id, epoch = integer(command.need("producerId")), integer(command.need("epoch"))
    if producer_id is None or epoch is None:
        raise RefusedError("invalid_producer_id", command=command.keyword)
    return Producer(transactional_id, producer_id, epoch)


async def describe(broker: Broker, name: str) -> TransactionDescription | None:
    """Return the coordinator's state of a transactional id, None if it was never initialised."""
    if broker.topics.get(TRANSACTIONS_TOPIC) is None:
        return None
    found = await broker.transactions.describe(inner_name(name))
    if found.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if found.error is not ErrorCode.NONE:
        raise RequestError(found.error)
    return found


async def holder_of(request: Request, name: str, unknown: str) -> Holder:
    """Return the command's producer if it holds its transactional id.

    Args:
        request: the command.
        name: its transactional id.
        unknown: the error's code if the transactional id was never initialised.

    Raises:
        RefusedError: with that code, or the producer is fenced, or an argument is invalid.
        RequestError: of the coordinator.
    """
    command = request.command
    producer_id = next(filter(None, map(command.get, _PRODUCER_NAMES)), "")
    if not producer_id:
        raise RefusedError("missing_producer_id", command=command.keyword)
    epoch = _epoch(command)
    found = await describe(request.broker, name)
    if found is None:
        raise RefusedError(
            unknown, detail=f"transactional id {name} is not initialised: INIT_PRODUCER_ID first"
        )
    number = _PRODUCER_ID.fullmatch(producer_id)
    if number is None or int(number[1], 16) != found.producer_id:
        raise RefusedError(
            "producer_fenced",
            transactional_id=name,
            producerId=producer_id[:ERROR_TEXT_CHARS_MAX],
            detail="another producer holds it",
        )
    producer = Producer(inner_name(name), found.producer_id, epoch)
    staged = request.state.transactions.of(name, producer)
    # An abort raises the epoch. If a producer has begun a transaction with the newer epoch, that
    # one was aborted; otherwise this producer's was.
    later = producer._replace(producer_epoch=found.producer_epoch)
    has_later = request.state.transactions.of(name, later) is not None
    is_aborted = found.state in _ABORTED and epoch == found.producer_epoch - 1 and not has_later
    if epoch != found.producer_epoch and not is_aborted:
        raise _fenced(name, found.producer_epoch, epoch)
    return Holder(name, producer, producer_id, found.state, staged, is_aborted)


def _fenced(name: str, current: int, requested: int) -> RefusedError:
    if requested > current:
        text = f"epoch {requested} was not given out, the last one is {current}"
        return RefusedError("invalid_epoch", detail=text)
    return RefusedError(
        "producer_fenced",
        transactional_id=name,
        current_epoch=current,
        requested_epoch=requested,
        reason="stale_producer_epoch",
    )


def _epoch(command: Command) -> int:
    text = command.get("epoch")
    number = integer(text) if text else 0
    if number is None or number not in _INT64:
        raise RefusedError("invalid_epoch", detail=f"{text[:ERROR_TEXT_CHARS_MAX]} is no epoch")
    return number


def aborted(name: str) -> RefusedError:
    """Return the error for a command of a transaction that was aborted."""
    return RefusedError("transaction_aborted", transactional_id=name)


def refusal_of(error: ErrorCode, name: str, code: str) -> Exception:
    """Return the error for an error code of the transaction coordinator; `code` is the default."""
    if error in UNAVAILABLE:
        return RequestError(error)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:
        text = f"transaction {name} still ends, or too many are open"
        return RefusedError("transaction_sync_failed", detail=text)
    if error in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        return RefusedError("producer_fenced", transactional_id=name)
    return RefusedError(code, detail=error.name.lower().replace("_", " "))
