"""DescribeUserScramCredentials, v0-0. There are no users, and none can be created (KIP-554)."""

from collections import Counter
from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.DescribeUserScramCredentialsRequest]", _session: Session
) -> "bodies.DescribeUserScramCredentialsResponse":
    """Return an error for each named user, and nothing for all users."""
    count: Counter[str] = Counter()
    async for part in in_parts(request.body["users"] or (), NAMES_READ_PER_STEP):
        count.update(each["name"] for each in part)
    results = [
        _result(name, ErrorCode.DUPLICATE_RESOURCE if times > 1 else ErrorCode.RESOURCE_NOT_FOUND)
        async for name, times in in_steps(count.items(), NAMES_READ_PER_STEP)
    ]
    return {"error_code": 0, "error_message": None, "results": results}


def _result(name: str, code: ErrorCode) -> "bodies.DescribeUserScramCredentialsResponseResult":
    return {
        "user": name,
        "error_code": errors.number(code),
        "error_message": errors.message(code),
        "credential_infos": [],
    }


API = Api(
    50,
    "DescribeUserScramCredentials",
    range(1),
    handle,
    (on_cluster(Operation.DESCRIBE),),
    refuse_with_message,
)
