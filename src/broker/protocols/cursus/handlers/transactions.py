"""INIT_PRODUCER_ID, BEGIN_TXN, END_TXN and TXN_STATUS: how a transaction begins and ends.

    INIT_PRODUCER_ID ─> aborted ─ BEGIN_TXN ─> open ─ END_TXN ─> committing ─ markers ─> committed
                           ^                    |                                          |
                           └──── END_TXN ───────┤ time, INIT or a restart        BEGIN_TXN ┴─> open
                                                └──> aborted, and to be initialised again

One epoch may have several transactions, one after the other. END_TXN is answered when the decision
is durable and all records and offsets are visible, or after CURSUS_TRANSACTION_END_WAIT_MS. Sent
again, it returns the same response.
"""

from asyncio import Future
from typing import Final

from broker.core.forwarding import check_transactional
from broker.core.transactions.commands import (
    EndRequest,
    EndResponse,
    InitRequest,
    InitResponse,
    Producer,
)
from broker.core.transactions.records import NO_ID, TransactionState
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CURSUS_TRANSACTION_END_WAIT_MS, CURSUS_TRANSACTION_TIMEOUT_MS
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import Command
from broker.protocols.cursus.holders import (
    Holder,
    aborted,
    describe,
    holder_of,
    inner_name,
    name_of,
    refusal_of,
    shown_id,
)
from broker.protocols.cursus.requests import Request, find_topic
from broker.protocols.cursus.staged import Scope, Staged

_RESULTS: Final = ("result", "action", "state")
_COMMIT: Final = "commit"
_ABORT: Final = "abort"
# A transaction may end between the check and the call: by its timeout, or by an earlier END_TXN.
_TRIES: Final = 3
_COMMITS: Final = {
    TransactionState.PREPARE_COMMIT: "committing",
    TransactionState.COMPLETE_COMMIT: "committed",
}


async def initialise(request: Request) -> str:
    """Return the next epoch of a producer; an open transaction of the previous one is aborted."""
    name = name_of(request)
    try:
        await request.broker.topics.transactions_topic()
    except RequestError as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
    check_transactional(request.session, inner_name(name))  # the topic may be new
    async with request.state.transactions.lock(name):
        response = await _initialised(request, inner_name(name))
        is_ending = response.error is ErrorCode.CONCURRENT_TRANSACTIONS
        if is_ending and await _ended(request, name):
            response = await _initialised(request, inner_name(name))
    if response.error is ErrorCode.POLICY_VIOLATION:
        raise RefusedError(
            "init_producer_failed", detail="there are as many transactional ids as there may be"
        )
    if response.error is not ErrorCode.NONE:
        raise refusal_of(response.error, name, "init_producer_failed")
    return (
        f"OK transactional_id={name} producerId={shown_id(response.producer_id)}"
        f" epoch={response.producer_epoch}"
    )


async def _initialised(request: Request, inner: str) -> InitResponse:
    broker = request.broker
    fresh_id = NO_ID
    if broker.transactions.needs_fresh_id(inner):
        fresh_id = await broker.producer_ids.next_id()
    timeout_ms_max = broker.config.integer("transaction.max.timeout.ms")
    timeout_ms = min(CURSUS_TRANSACTION_TIMEOUT_MS, timeout_ms_max)
    return await broker.transactions.init(InitRequest(inner, timeout_ms, fresh_id))


async def begin(request: Request) -> str:
    """Begin a transaction; an open one without records and offsets may be begun again."""
    name = name_of(request)
    async with request.state.transactions.lock(name):
        holder = await holder_of(request, name, "transaction_begin_failed")
        epoch = holder.producer.producer_epoch
        if holder.is_abandoned:
            raise RefusedError(
                "producer_reinitialization_required", transactional_id=name, epoch=epoch
            )
        if not holder.is_open:
            await _begin(request, holder)
        elif holder.staged is not None and not holder.staged.is_empty:
            raise RefusedError(
                "transaction_begin_failed", detail=f"transaction {name} is already active"
            )
    return f"OK transactional_id={name} state=open producerId={holder.producer_id} epoch={epoch}"


async def _begin(request: Request, holder: Holder) -> None:
    transactions = request.broker.transactions
    # Before the coordinator's begin: a client that loses the response may send BEGIN_TXN again.
    request.state.transactions.begin(holder.name, holder.producer, transactions.is_unfinished)
    error = await transactions.begin(holder.producer)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and await _ended(request, holder.name):
        error = await transactions.begin(holder.producer)
    if error is not ErrorCode.NONE:
        raise refusal_of(error, holder.name, "transaction_begin_failed")


async def end(request: Request) -> str:
    """Commit or abort a transaction."""
    name = name_of(request)
    async with request.state.transactions.lock(name):
        for _ in range(_TRIES):
            # The original checks the producer before the parameter `result`.
            holder = await holder_of(request, name, "transaction_not_found")
            answer = await _end(request, holder, _result(request.command))
            if answer:
                return answer
            if not await _ended(request, name):
                break
    raise refusal_of(ErrorCode.CONCURRENT_TRANSACTIONS, name, "transaction_commit_failed")


def _result(command: Command) -> str:
    """Return "commit" or "abort"; commit is the default."""
    text = next(filter(None, map(command.get, _RESULTS)), _COMMIT)
    if text.lower() not in (_COMMIT, _ABORT):
        raise RefusedError("invalid_transaction_result", value=text)
    return text.lower()


async def _end(request: Request, holder: Holder, result: str) -> str:
    """Return the response; empty if something else is ending the transaction."""
    is_commit = result == _COMMIT
    if holder.is_aborted or holder.state is not TransactionState.ONGOING:
        return _ended_before(holder, is_commit=is_commit)
    if is_commit and holder.staged is None:
        raise aborted(holder.name)
    decision = await _request_end(request, holder, is_commit=is_commit)
    response = await decision
    if response.error in (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
    ):
        return ""
    if response.error is not ErrorCode.NONE:
        code = "transaction_commit_failed" if is_commit else "transaction_abort_failed"
        raise refusal_of(response.error, holder.name, code)
    await _ended(request, holder.name)
    if holder.staged is not None:
        holder.staged.end()
    return _committed(holder) if is_commit else _aborted(holder)


async def _request_end(request: Request, holder: Holder, *, is_commit: bool) -> Future[EndResponse]:
    """Start the coordinator's end of a transaction, after a check of the member of its offsets."""
    end = EndRequest(holder.producer, is_commit)
    scope = holder.staged.scope if is_commit and holder.staged is not None else None
    if scope is None:
        return request.broker.transactions.end(end)
    with request.state.transactions.committing(scope.group):
        await _check_scope(request, scope)
        return request.broker.transactions.end(end)  # the coordinator knows it before any await


def _ended_before(holder: Holder, *, is_commit: bool) -> str:
    """Return the response to an END_TXN of a transaction that has ended or never begun."""
    name = holder.name
    commit = "" if holder.is_aborted else _COMMITS.get(holder.state, "")
    if not commit:
        if is_commit:
            raise aborted(name)
        return _aborted(holder)
    if is_commit:
        return _committed(holder)
    if holder.state is TransactionState.PREPARE_COMMIT:
        raise RefusedError("transaction_not_abortable", transactional_id=name, state=commit)
    raise RefusedError("transaction_already_committed", transactional_id=name)


def _committed(holder: Holder) -> str:
    return f"OK transactional_id={holder.name} state=committed{_numbers(holder.staged)}"


def _aborted(holder: Holder) -> str:
    return f"OK transactional_id={holder.name} state=aborted"


def _numbers(staged: Staged | None) -> str:
    """Return the counts of a transaction, nothing if they were lost at a restart."""
    if staged is None:
        return ""
    return f" messages={staged.messages} offsets={len(staged.offsets)}"


async def _check_scope(request: Request, scope: Scope) -> None:
    """Raise if the member has lost its partitions: other members read them by now."""
    topic = find_topic(request.broker, scope.topic)
    call = members.call_of(topic, scope.group, scope.member, scope.generation)
    await members.check(request.session, None, call)


async def status(request: Request) -> str:
    """Return the state of a transaction to any client."""
    name = name_of(request)
    found = await describe(request.broker, name)
    if found is None:
        raise RefusedError("transaction_not_found", detail=f"transaction {name} not found")
    producer = Producer(inner_name(name), found.producer_id, found.producer_epoch)
    staged = request.state.transactions.of(name, producer)
    state = _COMMITS.get(found.state, "aborted")
    if found.state is TransactionState.ONGOING and staged is not None:
        state = "open"
    # One client needs the counts, also when they were lost at a restart.
    numbers = _numbers(staged) if state != "aborted" else ""
    return f"OK transactional_id={name} state={state}{numbers or ' messages=0 offsets=0'}"


async def _ended(request: Request, name: str) -> bool:
    """Wait until a transaction's markers are written; return False if that takes too long."""
    transactions = request.broker.transactions
    return await transactions.wait_ended(inner_name(name), CURSUS_TRANSACTION_END_WAIT_MS)
