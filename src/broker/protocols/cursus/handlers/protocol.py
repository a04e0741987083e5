"""PROTOCOL_INFO, NEGOTIATE, AUTH, FIND_COORDINATOR, the cluster."""

import json
from typing import Final

from broker.core.forwarding import coordinator_to_ask, transaction_coordinator_to_ask
from broker.model.errors import RequestError
from broker.protocols.cursus.connections import host_of, leader_address
from broker.protocols.cursus.credentials import log_in
from broker.protocols.cursus.errors import CLASSES, RefusedError
from broker.protocols.cursus.grammar import TRANSACTION_NAMES, integer, partition_of
from broker.protocols.cursus.holders import inner_name
from broker.protocols.cursus.requests import Request, check_partition

VERSION: Final = 1
STRUCTURED_ERRORS: Final = "structured_errors_v1"
FEATURES: Final = (
    "event_sourcing_v1",
    "idempotent_producer_v1",
    "offset_resume_v1",
    "stream_control_v1",
    STRUCTURED_ERRORS,
    "topic_compaction_v1",
)
_ALL: Final = "*"
_ELECTION_SECONDS: Final = 5.0  # that a leader may take to stop before another one leads
_COMPACT: Final = (",", ":")
_INFO: Final = (
    f"OK protocol=cursus min_version={VERSION} max_version={VERSION} default_version={VERSION}"
    f" features={','.join(FEATURES)} error_classes={','.join(CLASSES)}"
)


async def info(_: Request) -> str:
    """Return the supported versions, features and error classes."""
    return _INFO


async def negotiate(request: Request) -> str:
    """Set the version and the features of this connection."""
    text = request.command.get("version")
    if not text:
        raise RefusedError("missing_protocol_version")
    version = integer(text)
    if version is None:
        raise RefusedError("invalid_protocol_version", version=text)
    if version != VERSION:
        raise RefusedError(
            "UNSUPPORTED_PROTOCOL_VERSION",
            has_class=True,
            requested=version,
            min=VERSION,
            max=VERSION,
        )
    asked = [each for each in request.command.get("features").split(",") if each]
    wanted = dict.fromkeys(FEATURES if _ALL in asked else asked)
    enabled = [each for each in wanted if each in FEATURES]
    unsupported = [each for each in wanted if each not in FEATURES]
    if unsupported and request.command.get("require_features") == "true":
        raise RefusedError("UNSUPPORTED_FEATURE", has_class=True, features=",".join(unsupported))
    request.connection.has_structured_errors = STRUCTURED_ERRORS in enabled
    return (
        f"OK protocol_version={VERSION} enabled={','.join(enabled)}"
        f" unsupported={','.join(unsupported)}"
    )


async def authenticate(request: Request) -> str:
    """Let the connection act for another user than before; without a login it is refused."""
    principal, token = request.command.get("principal"), request.command.get("token")
    if not principal or not token:
        raise RefusedError("invalid_auth", command="AUTH")
    await log_in(request.session, principal, token)
    return f"OK principal={principal} authenticated=true"


async def find_coordinator(request: Request) -> str:
    """Return the coordinator of a group or a transactional id."""
    command = request.command
    is_group = bool(command.get("group"))
    if not is_group and not any(map(command.get, TRANSACTION_NAMES)):
        raise RefusedError("missing_coordinator_key", command="FIND_COORDINATOR")
    kind = "group" if is_group else "transaction"
    session = request.session
    if session.broker.links is None:
        return (
            f"OK coordinator_id=standalone coordinator_type={kind}"
            f" host={host_of(session)} port={session.listener_port}"
        )
    if is_group:
        await request.groups()
        coordinator = coordinator_to_ask(session, command.get("group"))
    else:
        name = next(filter(None, map(command.get, TRANSACTION_NAMES)))
        await session.broker.topics.transactions_topic()
        coordinator = transaction_coordinator_to_ask(session, inner_name(name))
    if coordinator is None:
        coordinator = session.broker.node_id
    host, _, port = leader_address(session, coordinator).rpartition(":")
    return f"OK coordinator_id={coordinator} coordinator_type={kind} host={host} port={port}"


async def list_cluster(request: Request) -> str:
    """Return the brokers of the cluster as JSON."""
    if request.broker.links is None:
        raise RefusedError("distribution_not_enabled")
    return f"OK brokers={json.dumps(_brokers(request), separators=_COMPACT)}"


async def cluster_status(request: Request) -> str:
    """Return the brokers of the cluster and its controller as JSON."""
    if request.broker.links is None:
        raise RefusedError("distribution_required", command=request.command.keyword)
    shown = {
        "cluster_id": request.broker.cluster_id,
        "controller": request.broker.cluster.controller_id,
        "brokers": _brokers(request),
    }
    return f"OK cluster={json.dumps(shown, separators=_COMPACT)}"


def _brokers(request: Request) -> list[dict[str, object]]:
    session = request.session
    known = session.broker.cluster.brokers(*session.reached)
    return [
        {"id": each.broker_id, "address": leader_address(session, each.broker_id)} for each in known
    ]


async def elect_leader(request: Request) -> str:
    """Let a replica in sync lead a partition; another broker is refused."""
    command, session = request.command, request.session
    if session.broker.links is None:
        raise RefusedError("distribution_required", command=command.keyword)
    topic, partition = request.topic(), partition_of(command)
    check_partition(topic, partition)
    wanted = command.need("broker")
    before = session.broker.cluster.leadership(topic, partition)
    is_changed = wanted != str(before.leader)
    if is_changed:
        changes, broker_id = session.broker.partition_changes, integer(wanted)
        if changes is None or broker_id not in before.replicas:
            text = f"broker {wanted} has no copy of the partition"
            raise RefusedError("invalid_broker", broker=wanted, detail=text)
        try:
            await changes.move_leader((topic.topic_id, partition), broker_id, _ELECTION_SECONDS)
        except RequestError as error:
            raise RefusedError("invalid_broker", broker=wanted, detail=str(error)) from None
    after = session.broker.cluster.leadership(topic, partition)
    return (
        f"OK topic={topic.name} partition={partition} previous_leader={before.leader}"
        f" leader={after.leader} leader_epoch={after.leader_epoch}"
        f" changed={'true' if is_changed else 'false'}"
    )
