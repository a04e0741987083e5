"""DescribeUserScramCredentials, v0-0. There are no users, none can be made yet (KIP-554)."""

from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request, refuse_with_message


def handle(request: Request, _session: Session) -> Fields:
    """None of all users; each that is named is unknown."""
    names = dict.fromkeys(each["name"] for each in request.body["users"] or [])
    unknown: Fields = {
        "error_code": errors.number(ErrorCode.RESOURCE_NOT_FOUND),
        "error_message": errors.message(ErrorCode.RESOURCE_NOT_FOUND),
        "credential_infos": [],
    }
    results = [{"user": name, **unknown} for name in names]
    return {"error_code": 0, "error_message": None, "results": results}


API = Api(50, "DescribeUserScramCredentials", range(1), handle, refuse_with_message)
