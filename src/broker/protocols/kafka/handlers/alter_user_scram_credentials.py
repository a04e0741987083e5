"""AlterUserScramCredentials, v0-0. The client has derived the salted password (KIP-554)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security import audit
from broker.core.security.acls import Operation, ResourceType
from broker.core.security.users import Credential, Users, check_name
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.sasl_limits import SALT_BYTES_MAX
from broker.model.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    ScramMechanism,
    credential_of,
)
from broker.model.security_limits import USERS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, outcome
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_BY_NUMBER: Final = {each.number: each for each in MECHANISMS.values()}


async def handle(
    request: "Request[bodies.AlterUserScramCredentialsRequest]", session: Session
) -> "bodies.AlterUserScramCredentialsResponse":
    """Delete and set credentials; a user with an error is not changed at all."""
    users = session.broker.security.users
    assert users is not None
    deletions, upsertions = request.body["deletions"], request.body["upsertions"]
    count: Counter[tuple[str, int]] = Counter()
    refused: dict[str, RequestError | None] = {}
    changes: dict[str, list[Credential]] = {}
    async for each in in_steps(chain(deletions, upsertions), USERS_ANSWERED_PER_STEP):
        count[each["name"], each["mechanism"]] += 1
        refused[each["name"]] = None
    try:
        access.check_cluster(session, Operation.ALTER)
    except RequestError as error:
        return await _results(dict.fromkeys(refused, error))
    makers = chain(
        ((each["name"], each["mechanism"], partial(_deletion, users, each)) for each in deletions),
        ((each["name"], each["mechanism"], partial(_upsertion, each)) for each in upsertions),
    )
    async for name, number, make in in_steps(makers, USERS_ANSWERED_PER_STEP):
        try:
            if count[name, number] > 1:
                raise RequestError(ErrorCode.DUPLICATE_RESOURCE)
            changes.setdefault(name, []).append(make())
        except RequestError as error:
            refused[name] = refused[name] or error
    accepted = [change for name in changes if refused[name] is None for change in changes[name]]
    try:
        # What is changed is recorded, although the client leaves meanwhile.
        await session.broker.appends.run_to_completion(_alter(session, users, accepted))
    except RequestError as error:
        refused.update({each.user: error for each in accepted})
    return await _results(refused)


async def _alter(session: Session, users: Users, changes: Sequence[Credential]) -> None:
    await users.alter(changes)
    _record(session, changes)


async def _results(
    refused: dict[str, RequestError | None],
) -> "bodies.AlterUserScramCredentialsResponse":
    results: list[bodies.AlterUserScramCredentialsResponseResult] = [
        {"user": name, **outcome(refusal)}
        async for name, refusal in in_steps(refused.items(), USERS_ANSWERED_PER_STEP)
    ]
    return {"results": results}


def _mechanism(name: str, number: int) -> ScramMechanism:
    check_name(name)
    mechanism = _BY_NUMBER.get(number)
    if mechanism is None:
        raise RequestError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    return mechanism


def _deletion(users: Users, row: "bodies.AlterUserScramCredentialsRequestDeletion") -> Credential:
    mechanism = _mechanism(row["name"], row["mechanism"])
    if users.find(row["name"], mechanism) is None:
        raise RequestError(ErrorCode.RESOURCE_NOT_FOUND)
    return Credential(row["name"], mechanism, None)


def _upsertion(row: "bodies.AlterUserScramCredentialsRequestUpsertion") -> Credential:
    mechanism = _mechanism(row["name"], row["mechanism"])
    iterations, salt, salted = row["iterations"], row["salt"], row["salted_password"]
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        text = f"{iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    if len(salt) > SALT_BYTES_MAX:
        text = f"a salt of more than {SALT_BYTES_MAX} bytes"
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    if len(salted) != mechanism.size:
        text = f"a salted password of {len(salted)} bytes, not {mechanism.size}"
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    credential = credential_of(mechanism, salted, salt, iterations)
    return Credential(row["name"], mechanism, credential)


def _record(session: Session, changes: Iterable[Credential]) -> None:
    record = session.broker.security.audit
    if record is None:
        return
    peer = audit.Peer(session.client_host, session.listener.name, "kafka")
    for each in changes:
        is_deleted = each.credential is None
        kind = audit.AccountChange.DELETE if is_deleted else audit.AccountChange.CHANGE
        account = f"User:{each.user}"
        record(audit.Account(peer, str(session.principal), account, kind, each.mechanism.name))


API = Api(
    51,
    "AlterUserScramCredentials",
    range(1),
    handle,
    on_each(Operation.ALTER, ResourceType.CLUSTER),
)
