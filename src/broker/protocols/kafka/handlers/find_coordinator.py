"""FindCoordinator, v0-6. v1 key type; v3 flexible; v4 several keys (KIP-699); v6 share groups.

This broker coordinates every group. Who looks for a transaction coordinator is told at once that
there is none: COORDINATOR_NOT_AVAILABLE would make clients ask until they time out.
"""

from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request

_BATCHED_SINCE = 4
_GROUP = 0
_TRANSACTION = 1
_NO_TRANSACTIONS = "this broker does not support transactions yet"


def handle(request: Request, session: Session) -> Fields:
    """The same answer for every key of a type."""
    answer = _coordinator(request.body["key_type"], session)
    if request.version < _BATCHED_SINCE:
        return answer
    keys = dict.fromkeys(request.body["coordinator_keys"])
    return {"coordinators": [{"key": key, **answer} for key in keys]}


def _coordinator(key_type: int, session: Session) -> Fields:
    if key_type == _GROUP:
        return {
            "error_code": 0,
            "node_id": session.broker.node_id,
            "host": session.listener_host,
            "port": session.listener_port,
        }
    is_transaction = key_type == _TRANSACTION
    code = ErrorCode.UNSUPPORTED_VERSION if is_transaction else ErrorCode.INVALID_REQUEST
    return {
        "error_code": errors.number(code),
        "error_message": _NO_TRANSACTIONS if is_transaction else errors.message(code),
        "node_id": -1,
        "host": "",
        "port": -1,
    }


API = Api(10, "FindCoordinator", range(7), handle)
