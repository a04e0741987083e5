"""The commands of scenarios with assigned groups: V1's commands, and the text of responses.

    partitions t=3
    JOIN g t c1 assignor=range
    HEARTBEAT g t c1 2

`protocol=CURSUS` speaks another dialect, `session=` and `suffix=` are what its joins may say. A
generation may be `any` and a member `anybody`, as Cursus's members need not know it.

    COMMITS g t c1-4711 2 0:5 1:6
"""

from collections.abc import Mapping
from types import MappingProxyType

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedCommits,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    Assignor,
)
from broker.core.groups.partition.shard import GroupShard
from broker.model import limits
from tests.scenarios.scenario import Arguments, Scenario

_DEFAULT_PARTITIONS = 3


class AssignedScenario(Scenario[GroupShard]):
    """The commands of assigned groups; the others are those of test_scenarios.py."""

    partition_counts: Mapping[str, int] = MappingProxyType({})

    def do_partitions(self, words: Arguments) -> None:
        """`partitions t=5`: t has that many, other topics have 3."""
        self.partition_counts = {name: int(count) for name, count in words.named.items()}

    def do_JOIN(self, words: Arguments) -> None:  # noqa: N802 (as V1 writes it)
        group_id, topic, member_id = words.bare
        assignor = words.named.get("assignor")
        request = AssignedJoin(
            _protocol(words),
            _long(group_id),
            topic,
            _long(member_id),
            self._partition_count(topic),
            None if assignor is None else Assignor(assignor),
            words.number("session", AssignedJoin._field_defaults["session_timeout_ms"]),
            words.text("suffix"),
        )
        self.apply(self.shard.end_sessions(group_id, self.now()))
        self.apply(self.shard.assigned.assigned_group_join(request, member_id, self.now()))

    def do_SYNC(self, words: Arguments) -> None:  # noqa: N802
        self.apply(self.shard.assigned.sync(self._call(words), words.bare[2], self.now()))

    do_HEARTBEAT = do_SYNC  # noqa: N815 (they differ in what is said of the answer)

    def do_LEAVE(self, words: Arguments) -> None:  # noqa: N802
        self.apply(self.shard.assigned.leave(self._call(words), words.bare[2], self.now()))

    def do_COMMIT(self, words: Arguments) -> None:  # noqa: N802
        *_, partition, offset = words.bare
        request = AssignedCommit(self._call(words), int(partition), int(offset))
        self.apply(self.shard.assigned.commit(request, words.bare[2], self.now()))

    def do_COMMITS(self, words: Arguments) -> None:  # noqa: N802
        offsets = [tuple(map(int, each.split(":"))) for each in words.bare[4:]]
        pairs = tuple((partition, offset) for partition, offset in offsets)
        request = AssignedCommits(self._call(words), pairs)
        self.apply(self.shard.assigned.commit_all(request, words.bare[2], self.now()))

    def do_CHECK(self, words: Arguments) -> None:  # noqa: N802
        self.apply(self.shard.assigned.check(self._call(words), words.bare[2], self.now()))

    def _call(self, words: Arguments) -> AssignedCall:
        group_id, topic, member_id, generation = words.bare[:4]
        return AssignedCall(
            _protocol(words),
            _long(group_id),
            topic,
            "" if member_id == "anybody" else member_id,
            None if generation == "any" else int(generation),
            self._partition_count(topic),
        )

    def _partition_count(self, topic: str) -> int:
        return self.partition_counts.get(topic, _DEFAULT_PARTITIONS)


def _protocol(words: Arguments) -> AssignedProtocol:
    return AssignedProtocol[words.text("protocol", "V1")]


def _long(name: str) -> str:
    """`huge` is a name above the limit of a record, `empty` is none."""
    return {"huge": "x" * (limits.GROUP_ID_BYTES_MAX + 1), "empty": ""}.get(name, name)


def answer(response: AssignedResponse) -> str:
    words = [response.error.name, response.member_id[:16]]
    if response.generation:
        words += [f"generation={response.generation}"]
        words += [f"[{' '.join(map(str, response.partitions))}]"]
    if response.topic:
        words += [f"topic={response.topic}"]
    if response.partition >= 0:
        words += [f"partition={response.partition}"]
    if response.committed >= 0:
        words += [f"committed={response.committed}"]
    return " ".join(words)
