"""DescribeUserScramCredentials, v0-0: mechanisms and iterations of users (KIP-554)."""

from collections import Counter
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.model.security_limits import USERS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, message, refuse_with_message
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.security.users import Credential, Users


async def handle(
    request: "Request[bodies.DescribeUserScramCredentialsRequest]", session: Session
) -> "bodies.DescribeUserScramCredentialsResponse":
    """Return the credentials of the named users, or of all."""
    users = session.broker.security.users
    assert users is not None
    count: Counter[str] = Counter()
    async for part in in_parts(request.body["users"] or (), NAMES_READ_PER_STEP):
        count.update(each["name"] for each in part)
    try:
        access.check_cluster(session, Operation.DESCRIBE)
    except RequestError as error:
        refusals = [
            _refused(name, error) async for name in in_steps(count, USERS_ANSWERED_PER_STEP)
        ]
        code = errors.number(error.code)
        return {"error_code": code, "error_message": message(error), "results": refusals}
    if not count:
        results = [
            _result(name, found)
            async for name in in_steps(users.names(), USERS_ANSWERED_PER_STEP)
            if (found := users.of(name))
        ]
    else:
        results = [
            _named(users, name, times)
            async for name, times in in_steps(count.items(), USERS_ANSWERED_PER_STEP)
        ]
    return {"error_code": 0, "error_message": None, "results": results}


def _named(
    users: "Users", name: str, times: int
) -> "bodies.DescribeUserScramCredentialsResponseResult":
    if times > 1:
        return _refused(name, RequestError(ErrorCode.DUPLICATE_RESOURCE))
    found = users.of(name)
    if not found:
        return _refused(name, RequestError(ErrorCode.RESOURCE_NOT_FOUND))
    return _result(name, found)


def _result(
    name: str, credentials: "list[Credential]"
) -> "bodies.DescribeUserScramCredentialsResponseResult":
    return {
        "user": name,
        "error_code": 0,
        "error_message": None,
        "credential_infos": [
            {"mechanism": mechanism.number, "iterations": credential.iterations}
            for _, mechanism, credential in credentials
            if credential is not None
        ],
    }


def _refused(name: str, error: RequestError) -> "bodies.DescribeUserScramCredentialsResponseResult":
    return {"user": name, **refuse_with_message(error), "credential_infos": []}


API = Api(
    50,
    "DescribeUserScramCredentials",
    range(1),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.CLUSTER),
    refuse_with_message,
)
