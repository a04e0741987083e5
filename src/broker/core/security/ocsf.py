"""Events of the audit as objects of OCSF 1.3, the Open Cybersecurity Schema Framework. Pure.

    Login             3002 Authentication
    Account           3001 Account Change
    Decision          6003 API Activity: what was denied, or administers
                      6005 Datastore Activity: data was read or written
    Dropped           1008 Event Log Activity: events that could not be recorded
    Lifecycle         6002 Application Lifecycle: the broker has started or stops

Names and texts from clients are shortened here; JSON escapes the rest of them.
"""

from typing import Any, NamedTuple, TypeAlias

from broker.core.security.audit import (
    ACCESS_OPERATIONS,
    Account,
    AccountChange,
    Decision,
    Event,
    Login,
    Peer,
    shortened,
)

VERSION = "1.3.0"

Fields: TypeAlias = "dict[str, Any]"

_INFORMATIONAL, _LOW, _MEDIUM = 1, 2, 3
_SUCCESS, _FAILURE = 1, 2
_OTHER = 99
_USER_TYPE_USER = 1
_NETWORK_LOGON = 3
_OAUTH = 6  # OCSF has no number for SASL
_CATEGORY_NAMES = {
    1: "System Activity",
    3: "Identity & Access Management",
    6: "Application Activity",
}
# Operations of Kafka as activities of class 6003, and of class 6005.
_API_ACTIVITIES = {
    "Create": 1,
    "Read": 2,
    "Describe": 2,
    "DescribeConfigs": 2,
    "DescribeTokens": 2,
    "Write": 3,
    "Alter": 3,
    "AlterConfigs": 3,
    "Delete": 4,
}
_DATA_ACTIVITIES = {"Read": 1, "Write": 5}
_ACCOUNT_ACTIVITIES = {
    AccountChange.CREATE: 1,
    AccountChange.CHANGE: 3,
    AccountChange.DELETE: 6,
}
_ACTIVITY_NAMES = {
    3001: {1: "Create", 3: "Password Change", 6: "Delete"},
    3002: {1: "Logon"},
    6002: {3: "Start", 4: "Stop"},
    6003: {1: "Create", 2: "Read", 3: "Update", 4: "Delete"},
    6005: {1: "Read", 5: "Write"},
}
_CLASS_NAMES = {
    1008: "Event Log Activity",
    3001: "Account Change",
    3002: "Authentication",
    6002: "Application Lifecycle",
    6003: "API Activity",
    6005: "Datastore Activity",
}


class Dropped(NamedTuple):
    """Events that are not in the audit: there was no room, or nothing could be written."""

    events: int


class Lifecycle(NamedTuple):
    """The broker begins or ends to serve."""

    is_start: bool


class Producer(NamedTuple):
    """The broker that writes the events."""

    broker_id: int
    cluster_id: str
    version: str


Recorded: TypeAlias = Event | Dropped | Lifecycle


def fields_of(event: Recorded, producer: Producer, time_ms: int, sequence: int) -> Fields:
    """Return an event as an OCSF object."""
    found = _of_client(event) if isinstance(event, Event) else _of_broker(event, producer)
    found["time"] = time_ms
    found["metadata"] = {
        "version": VERSION,
        "product": {
            "name": "Polylog",
            "vendor_name": "Polylog",
            "version": producer.version,
            "uid": str(producer.broker_id),
        },
        "log_name": "audit",
        "sequence": sequence,
        "tenant_uid": producer.cluster_id,
    }
    return found


def _of_client(event: Event) -> Fields:
    if isinstance(event, Login):
        return _login(event)
    return _account(event) if isinstance(event, Account) else _decision(event)


def _of_broker(event: Dropped | Lifecycle, producer: Producer) -> Fields:
    if isinstance(event, Lifecycle):
        found = _fields(6002, 3 if event.is_start else 4, _INFORMATIONAL, _SUCCESS)
        return found | {"app": _service(producer)}
    found = _fields(
        1008, _OTHER, _MEDIUM, _FAILURE, "events were dropped: nothing was written in time"
    )
    return found | {"count": event.events}


def _login(event: Login) -> Fields:
    has_failed = event.failure != ""
    severity = _LOW if has_failed else _INFORMATIONAL
    status = _FAILURE if has_failed else _SUCCESS
    found = _fields(3002, 1, severity, status, shortened(event.failure))
    found |= {
        "user": _user(event.user),
        "auth_protocol": event.mechanism,
        "auth_protocol_id": _OAUTH if event.mechanism == "OAUTHBEARER" else _OTHER,
        "logon_type_id": _NETWORK_LOGON,
        "logon_type": "Network",
        "is_remote": True,
        "src_endpoint": _source(event.peer),
        "dst_endpoint": _target(event.peer),
    }
    return found


def _account(event: Account) -> Fields:
    found = _fields(3001, _ACCOUNT_ACTIVITIES[event.change], _INFORMATIONAL, _SUCCESS)
    found |= {
        "actor": {"user": _user(event.user)},
        "user": _user(event.account),
        "src_endpoint": _source(event.peer),
    }
    if event.detail:
        found["message"] = shortened(event.detail)
    return found


def _decision(event: Decision) -> Fields:
    is_access = event.is_allowed and event.operation in ACCESS_OPERATIONS
    class_uid = 6005 if is_access else 6003
    activities = _DATA_ACTIVITIES if is_access else _API_ACTIVITIES
    activity = activities.get(event.operation, _OTHER)
    detail = "" if event.is_allowed else f"{event.operation} denied"
    found = _fields(
        class_uid,
        activity,
        _INFORMATIONAL if event.is_allowed else _MEDIUM,
        _SUCCESS if event.is_allowed else _FAILURE,
        detail,
    )
    decision = "Allowed" if event.is_allowed else "Denied"
    found["actor"] = {
        "user": _user(event.user),
        "authorizations": [{"decision": decision, "policy": {"name": "acl"}}],
    }
    found["src_endpoint"] = _source(event.peer)
    found["dst_endpoint"] = _target(event.peer)
    name = shortened(event.resource_name)
    if is_access:
        found["type_id"] = _OTHER
        found["type"] = event.resource_type
        found["databucket"] = {"name": name, "type_id": _OTHER, "type": event.resource_type}
    else:
        found["resources"] = [{"name": name, "type": event.resource_type}]
    found["api"] = {
        "operation": shortened(event.request),
        "service": {"name": event.peer.protocol},
        "request": {"flags": [event.operation]},
    }
    if event.detail:
        found["message"] = shortened(event.detail)
    return found


def _fields(
    class_uid: int, activity_id: int, severity_id: int, status_id: int, detail: str = ""
) -> Fields:
    category = class_uid // 1000
    names = _ACTIVITY_NAMES.get(class_uid, {})
    found: Fields = {
        "class_uid": class_uid,
        "class_name": _CLASS_NAMES[class_uid],
        "category_uid": category,
        "category_name": _CATEGORY_NAMES[category],
        "activity_id": activity_id,
        "activity_name": names.get(activity_id, "Other"),
        "type_uid": class_uid * 100 + activity_id,
        "severity_id": severity_id,
        "severity": {1: "Informational", 2: "Low", 3: "Medium"}[severity_id],
        "status_id": status_id,
        "status": "Success" if status_id == _SUCCESS else "Failure",
    }
    if detail:
        found["status_detail"] = detail
    return found


def _user(principal: str) -> Fields:
    kind, colon, name = shortened(principal).partition(":")
    if not colon:
        kind, name = "User", kind
    return {"name": name, "type": kind, "type_id": _USER_TYPE_USER if kind == "User" else _OTHER}


def _source(peer: Peer) -> Fields:
    return {"ip": peer.host}


def _target(peer: Peer) -> Fields:
    return {"svc_name": peer.protocol, "name": peer.listener}


def _service(producer: Producer) -> Fields:
    return {"name": "Polylog", "vendor_name": "Polylog", "version": producer.version}
