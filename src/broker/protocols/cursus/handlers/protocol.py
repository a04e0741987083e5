"""What the protocol says of itself: versions, features, commands, credentials, the cluster."""

from typing import Final

from broker.protocols.cursus.connections import host_of
from broker.protocols.cursus.errors import CLASSES, always_structured, listed, refused
from broker.protocols.cursus.grammar import FORMS, integer
from broker.protocols.cursus.requests import Request

VERSION: Final = 1
STRUCTURED_ERRORS: Final = "structured_errors_v1"
FEATURES: Final = (
    "idempotent_producer_v1",
    "offset_resume_v1",
    "stream_control_v1",
    STRUCTURED_ERRORS,
    "topic_compaction_v1",
)
_ALL: Final = "*"
_COMMANDS: Final = f"OK commands={listed([*FORMS, 'EXIT'])}"
_INFO: Final = (
    f"OK protocol=cursus min_version={VERSION} max_version={VERSION} default_version={VERSION}"
    f" features={listed(FEATURES)} error_classes={listed(CLASSES)}"
)


async def info(_: Request) -> str:
    """Versions and features, before anything is negotiated."""
    return _INFO


async def list_commands(_: Request) -> str:
    """Every command there is."""
    return _COMMANDS


async def negotiate(request: Request) -> str:
    """Agree on a version, and on features for this connection."""
    text = request.command.get("version")
    if not text:
        raise refused("missing_protocol_version")
    version = integer(text)
    if version is None:
        raise refused("invalid_protocol_version", version=text)
    if version != VERSION:
        raise always_structured(
            "UNSUPPORTED_PROTOCOL_VERSION", requested=version, min=VERSION, max=VERSION
        )
    asked = [each for each in request.command.get("features").split(",") if each]
    wanted = dict.fromkeys(FEATURES if _ALL in asked else asked)
    enabled = [each for each in wanted if each in FEATURES]
    unsupported = [each for each in wanted if each not in FEATURES]
    if unsupported and request.command.get("require_features") == "true":
        raise always_structured("UNSUPPORTED_FEATURE", features=listed(unsupported))
    request.connection.has_structured_errors = STRUCTURED_ERRORS in enabled
    return (
        f"OK protocol_version={VERSION} enabled={listed(enabled)} unsupported={listed(unsupported)}"
    )


async def authenticate(request: Request) -> str:
    """Take any name: there is no authentication yet that could tell who it is."""
    principal = request.command.get("principal")
    if not principal or not request.command.get("token"):
        raise refused("invalid_auth", command="AUTH")
    return f"OK principal={principal} authenticated=true"


async def find_coordinator(request: Request) -> str:
    """Who looks after a group or a transactional id: this broker."""
    command = request.command
    is_group = bool(command.get("group"))
    if not is_group and not any(map(command.get, ("transactional_id", "txn", "transaction"))):
        raise refused("missing_coordinator_key", command="FIND_COORDINATOR")
    kind = "group" if is_group else "transaction"
    session = request.session
    return (
        f"OK coordinator_id=standalone coordinator_type={kind}"
        f" host={host_of(session)} port={session.listener_port}"
    )


async def list_cluster(_: Request) -> str:
    """The brokers of a cluster, which there is none of."""
    raise refused("distribution_not_enabled")


async def need_cluster(request: Request) -> str:
    """What only a cluster can do."""
    raise refused("distribution_required", command=request.command.keyword)
