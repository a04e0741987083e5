"""The parameters of CREATE as topic settings, and the policy of a topic in responses.

    cleanup_policy     cleanup.policy
    retention_hours    retention.ms        0: the broker's default
    retention_bytes    retention.bytes     0: the broker's default
    idempotent         polylog.cursus.idempotent
    partitioner        polylog.cursus.partitioner
    event_sourcing     polylog.event.sourcing, and what that needs; only for a new topic

`replication_factor` is no setting: it is the number of replicas of a new topic.

Access policies are ACLs (topic_access.py).
"""

from typing import Final

from broker.core.session import Session
from broker.core.topics.rules import DEFAULT
from broker.core.topics.topic import Topic
from broker.model.own_config import Alteration, AlterOp
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import STREAM_SETTINGS
from broker.protocols.cursus import topic_access
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import Command, integer
from broker.protocols.cursus.settings import IDEMPOTENT, PARTITIONER, PARTITIONERS

_RETENTION_MS: Final = "retention.ms"
_RETENTION_BYTES: Final = "retention.bytes"
_MS_PER_HOUR: Final = 3_600_000
_LONG_MAX: Final = (1 << 63) - 1
_INT16_MAX: Final = (1 << 15) - 1
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_CLEANUP: Final = ("delete", "compact")


def alterations(command: Command, topic: Topic | None) -> list[Alteration]:
    """Return the settings that a CREATE changes, of a topic if it exists.

    Raises RefusedError for invalid parameters.
    """
    has_streams = _has_streams(command, topic)
    changes = [
        *_cleanup(command),
        *_retention(command, "retention_hours", _RETENTION_MS, _MS_PER_HOUR),
        *_retention(command, "retention_bytes", _RETENTION_BYTES, 1),
    ]
    if command.get("idempotent"):
        is_idempotent = _flag(command, "idempotent")
        changes.append(Alteration(IDEMPOTENT, AlterOp.SET, "true" if is_idempotent else "false"))
    partitioner = command.get("partitioner")
    if partitioner:
        if partitioner not in PARTITIONERS:
            raise RefusedError("invalid_topic_policy", partitioner=partitioner)
        changes.append(Alteration(PARTITIONER, AlterOp.SET, partitioner))
    if has_streams:
        return _of_streams(changes, is_new=topic is None)
    return changes


def _has_streams(command: Command, topic: Topic | None) -> bool:
    """Return whether the topic has streams, or will have them."""
    has = topic is not None and topic.config.has_streams
    if not command.get("event_sourcing"):
        return has
    asked = _flag(command, "event_sourcing")
    if topic is not None and asked != has:
        raise _unsupported("event_sourcing", "it is decided when a topic is created")
    return asked


def _of_streams(changes: list[Alteration], *, is_new: bool) -> list[Alteration]:
    """Return the changes of a topic with streams; refuse those that would remove events."""
    kept = [each for each in changes if each.name not in STREAM_SETTINGS]
    for each in changes:
        if each.op is AlterOp.SET and each.text != STREAM_SETTINGS.get(each.name, each.text):
            raise _unsupported(each.name, "a stream keeps all of its events")
    if is_new:
        own = {EVENT_SOURCING: "true", **STREAM_SETTINGS}
        kept += [Alteration(name, AlterOp.SET, text) for name, text in own.items()]
    return kept


def replication_factor(command: Command) -> int:
    """Return how many replicas are asked for; DEFAULT if that is not given."""
    text = command.get("replication_factor")
    if not text:
        return DEFAULT
    number = integer(text)
    if number is None or not 0 < number <= _INT16_MAX:
        raise RefusedError("invalid_replication_factor", detail="must be a positive integer")
    return number


def _flag(command: Command, name: str) -> bool:
    value = _FLAGS.get(command.get(name).lower())
    if value is None:
        raise RefusedError(f"invalid_{name}", value=command.get(name))
    return value


def _unsupported(policy: str, text: str) -> Exception:
    return RefusedError("unsupported_topic_policy", policy=policy, detail=text)


def _cleanup(command: Command) -> list[Alteration]:
    text = command.get("cleanup_policy")
    if not text:
        return []
    policies = text.split(",")
    if any(each not in _CLEANUP for each in policies) or len(set(policies)) < len(policies):
        raise RefusedError("invalid_topic_policy", cleanup_policy=text)
    return [Alteration("cleanup.policy", AlterOp.SET, text)]


def _retention(command: Command, name: str, key: str, factor: int) -> list[Alteration]:
    text = command.get(name)
    if not text:
        return []
    number = integer(text)
    if number is None or number < 0 or number * factor > _LONG_MAX:
        raise RefusedError(f"invalid_{name}", value=text)
    if number == 0:
        return [Alteration(key, AlterOp.DELETE)]
    return [Alteration(key, AlterOp.SET, str(number * factor))]


def policy_of(session: Session, topic: Topic) -> dict[str, str | int | bool]:
    """Return a topic's policy in the order of the fields in responses."""
    config = topic.config
    return {
        "cleanup_policy": ",".join(config.words("cleanup.policy")),
        "partitioner": config.text(PARTITIONER),
        **topic_access.policy_of(session, topic.name),
        "retention_hours": _own(topic, _RETENTION_MS) // _MS_PER_HOUR,
        "retention_bytes": _own(topic, _RETENTION_BYTES),
    }


def policy_text(session: Session, topic: Topic) -> str:
    """Return a topic's policy as name=value fields."""
    return " ".join(f"{name}={value}" for name, value in policy_of(session, topic).items())


def _own(topic: Topic, key: str) -> int:
    """Return a setting that the topic overrides; 0 if it does not, or if it is unlimited."""
    return max(int(topic.config.overrides.get(key, "0")), 0)
