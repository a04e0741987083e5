"""DescribeUserScramCredentials, v0-0. There are no users, none can be made yet (KIP-554)."""

from collections import Counter

from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request, refuse_with_message


def handle(request: Request, _session: Session) -> Fields:
    """None of all users; each that is named is unknown, or is named twice."""
    count = Counter(each["name"] for each in request.body["users"] or [])
    results = [
        _result(name, ErrorCode.DUPLICATE_RESOURCE if times > 1 else ErrorCode.RESOURCE_NOT_FOUND)
        for name, times in count.items()
    ]
    return {"error_code": 0, "error_message": None, "results": results}


def _result(name: str, code: ErrorCode) -> Fields:
    return {
        "user": name,
        "error_code": errors.number(code),
        "error_message": errors.message(code),
        "credential_infos": [],
    }


API = Api(50, "DescribeUserScramCredentials", range(1), handle, refuse_with_message)
