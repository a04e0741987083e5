"""AlterUserScramCredentials, v0-0. The client has derived the salted password (KIP-554)."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security import audit
from broker.core.security.acls import Operation, ResourceType
from broker.core.security.users import Credential, Users, check_name
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.model.sasl_limits import SALT_BYTES_MAX
from broker.model.scram import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS, credential_of
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
    rows = [*request.body["deletions"], *request.body["upsertions"]]
    count = Counter([(each["name"], each["mechanism"]) for each in rows])
    refused: dict[str, RequestError | None] = dict.fromkeys([each["name"] for each in rows])
    changes: dict[str, list[Credential]] = {}
    try:
        access.check_cluster(session, Operation.ALTER)
    except RequestError as error:
        return _results(dict.fromkeys(refused, error))
    async for each in in_steps(rows, NAMES_READ_PER_STEP):
        name = each["name"]
        try:
            if count[name, each["mechanism"]] > 1:
                raise RequestError(ErrorCode.DUPLICATE_RESOURCE)
            changes.setdefault(name, []).append(_change(users, each))
        except RequestError as error:
            refused[name] = refused[name] or error
    accepted = [change for name in changes if refused[name] is None for change in changes[name]]
    try:
        await users.alter(accepted)
    except RequestError as error:
        refused.update({each.user: error for each in accepted})
    _record(session, [each for each in accepted if refused[each.user] is None])
    return _results(refused)


def _results(refused: dict[str, RequestError | None]) -> "bodies.AlterUserScramCredentialsResponse":
    return {"results": [{"user": name, **outcome(refusal)} for name, refusal in refused.items()]}


def _change(
    users: Users,
    row: "bodies.AlterUserScramCredentialsRequestDeletion"
    " | bodies.AlterUserScramCredentialsRequestUpsertion",
) -> Credential:
    name = row["name"]
    check_name(name)
    mechanism = _BY_NUMBER.get(row["mechanism"])
    if mechanism is None:
        raise RequestError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if "salted_password" not in row:
        if users.find(name, mechanism) is None:
            raise RequestError(ErrorCode.RESOURCE_NOT_FOUND)
        return Credential(name, mechanism, None)
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
    return Credential(name, mechanism, credential_of(mechanism, salted, salt, iterations))


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
