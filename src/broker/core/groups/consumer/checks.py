"""Validation of heartbeats: their fields, and the member epoch (KIP-848)."""

from broker.core.groups.commands.consumer import JOIN_EPOCH, LEAVE_STATIC_EPOCH, ConsumerHeartbeat
from broker.core.groups.consumer.assignors import ASSIGNORS
from broker.core.groups.consumer.reconcile import is_subset
from broker.core.groups.records.consumer import CurrentAssignment
from broker.core.groups.settings import ConsumerSettings
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError


def check_heartbeat(request: ConsumerHeartbeat, settings: ConsumerSettings) -> None:
    """Raise RequestError if a heartbeat has missing or invalid fields, or an unknown assignor."""
    _check_names(request)
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("only a member with an instance id can leave temporarily")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"invalid member epoch {request.member_epoch}")
    if request.assignor is not None and not (
        request.assignor in ASSIGNORS and request.assignor in settings.assignors
    ):
        raise RequestError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"the broker has the assignors {', '.join(settings.assignors)}",
        )


def _check_names(request: ConsumerHeartbeat) -> None:
    if not request.group_id:
        raise _invalid("the group id is empty")
    if not request.member_id and (request.requires_member_id or request.member_epoch != JOIN_EPOCH):
        raise _invalid("the member id is empty")
    if request.instance_id == "" or request.rack_id == "":
        raise _invalid("an instance id or rack id that is given must not be empty")
    names = (request.member_id, request.client_id, request.instance_id, request.rack_id)
    if any(len((name or "").encode()) > limits.CLIENT_ID_BYTES_MAX for name in names):
        raise _invalid(f"an id is longer than {limits.CLIENT_ID_BYTES_MAX} bytes")
    size = sum(len(name.encode()) for name in request.topic_names or ())
    if size > limits.SUBSCRIBED_NAMES_BYTES_MAX:
        raise _invalid(
            f"the subscribed topic names have more than {limits.SUBSCRIBED_NAMES_BYTES_MAX} bytes"
        )


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("a member that joins must set its rebalance timeout")
    if request.owned is None or request.owned:
        raise _invalid("a member that joins must send an empty list of owned partitions")
    if request.topic_names is None and request.topic_regex is None:
        raise _invalid("a member that joins must send a subscription")


def check_epoch(current: CurrentAssignment, request: ConsumerHeartbeat) -> None:
    """Fence a member with another epoch, unless it has only missed the last response.

    Such a member has the previous epoch, and owns only partitions that are assigned to it.
    """
    if request.member_epoch == current.epoch:
        return
    has_missed_one = (
        request.member_epoch == current.previous_epoch < current.epoch
        and request.owned is not None
        and is_subset(request.owned, current.assigned)
    )
    if not has_missed_one:
        raise RequestError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"the member is at epoch {current.epoch}, not {request.member_epoch}:"
            " it must abandon its partitions and join again",
        )


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
