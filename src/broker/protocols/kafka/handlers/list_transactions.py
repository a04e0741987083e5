"""ListTransactions, v0-2. v1 duration filter (KIP-994); v2 pattern of ids (KIP-1152)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import next_step
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.transactions.commands import TransactionDescription
from broker.core.transactions.records import STATES, TransactionState
from broker.model.errors import ErrorCode, RequestError
from broker.model.patterns import compiled
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_RUNNING = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
)


async def handle(
    request: "Request[bodies.ListTransactionsRequest]", session: Session
) -> "bodies.ListTransactionsResponse":
    """List the transactional ids that pass all filters, in steps, each as it was in its step."""
    coordinator = session.broker.transactions
    if not coordinator.is_ready:
        raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    known = {state.value for state in STATES}
    passes = _filter(request.body, session.broker.clock.latest_ms())
    found: list[bodies.ListTransactionsResponseTransactionState] = []
    for part in coordinator.listing():
        found += [_listed(each) for each in part if passes(each) and _is_shown(session, each)]
        await next_step()
    return {
        "error_code": 0,
        "unknown_state_filters": [
            each for each in request.body["state_filters"] if each not in known
        ],
        "transaction_states": found,
    }


def _is_shown(session: Session, each: TransactionDescription) -> bool:
    kind = ResourceType.TRANSACTIONAL_ID
    return access.may(session, Operation.DESCRIBE, kind, each.transactional_id)


def _listed(each: TransactionDescription) -> "bodies.ListTransactionsResponseTransactionState":
    return {
        "transactional_id": each.transactional_id,
        "producer_id": each.producer_id,
        "transaction_state": each.state.value,
    }


def _filter(
    body: "bodies.ListTransactionsRequest", wall_ms: int
) -> Callable[[TransactionDescription], bool]:
    states, ids = set(body["state_filters"]), frozenset(body["producer_id_filters"])
    duration_ms = body["duration_filter"]
    pattern = body["transactional_id_pattern"]
    matches = compiled(pattern) if pattern else None

    def passes(each: TransactionDescription) -> bool:
        return (
            each.error is ErrorCode.NONE
            and (not states or each.state.value in states)
            and (not ids or each.producer_id in ids)
            and (duration_ms < 0 or _runs_for(each, wall_ms) > duration_ms)
            and (matches is None or matches(each.transactional_id) is not None)
        )

    return passes


def _runs_for(each: TransactionDescription, wall_ms: int) -> int:
    return wall_ms - each.started_ms if each.state in _RUNNING else -1


API = Api(
    66,
    "ListTransactions",
    range(3),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
)
