"""The words of conversations with consumer groups, and how their records and answers are shown."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

from broker.codec.coordinator_records import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from broker.core.groups.commands import GroupDecision, GroupProtocol, GroupSettings
from broker.core.groups.consumer import records
from broker.core.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    ConsumerSettings,
    MigrationPolicy,
)
from broker.core.groups.shard import GroupShard
from broker.core.machine import Moment
from broker.model.errors import CodecError
from broker.model.identifiers import ID_BYTES


class FakeTopic(NamedTuple):
    """A topic; its id is its name and incarnation."""

    name: str
    topic_id: bytes
    partition_count: int

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")


class FakeTopics:
    """Topics that a test makes, changes and deletes."""

    def __init__(self) -> None:
        self.version = 0
        self._incarnations = 0
        self._by_name: dict[str, FakeTopic] = {}

    def get(self, name: str, /) -> FakeTopic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes, /) -> FakeTopic | None:
        return next((each for each in self._by_name.values() if each.topic_id == topic_id), None)

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def put(self, name: str, partitions: int) -> None:
        """Create a topic or make it larger; without partitions it is deleted."""
        self.version += 1
        known = self._by_name.pop(name, None)
        if partitions:
            self._incarnations += known is None
            new_id = f"{name}/{self._incarnations}".encode().ljust(ID_BYTES, b".")
            topic_id = known.topic_id if known else new_id
            self._by_name[name] = FakeTopic(name, topic_id, partitions)


class Words(Protocol):
    """The words of one command."""

    bare: list[str]
    named: dict[str, str]

    def text(self, name: str, default: str = "") -> str: ...

    def number(self, name: str, default: int) -> int: ...

    def pairs(self, name: str, default: str = "") -> list[tuple[str, str]]: ...

    @property
    def group(self) -> str: ...

    @property
    def token(self) -> str: ...


class ConsumerConversation:
    """What a conversation says to consumer groups; the rest of it is test_scenarios.py's."""

    shard: GroupShard
    topics: FakeTopics
    apply: Callable[[GroupDecision], None]
    now: Callable[[], Moment]

    def do_topics(self, words: Words) -> None:
        """`topics t=3 u=0`: t has three partitions now, u is gone."""
        for name, count in words.named.items():
            self.topics.put(name, int(count))

    def do_beat(self, words: Words) -> None:
        names = words.named.get("topics")
        request = ConsumerHeartbeat(
            group_id=words.group,
            member_id=words.text("member"),
            member_epoch=words.number("epoch", 0),
            instance_id=words.named.get("instance"),
            rebalance_timeout_ms=words.number("rebalance", -1),
            topic_names=None if names is None else tuple(each for each in names.split(",") if each),
            topic_regex=words.named.get("regex"),
            assignor=words.named.get("assignor"),
            owned=self._owned(words),
            client_id=words.text("client", "client"),
            requires_member_id="v1" in words.bare,
            fresh_id="fresh",
        )
        self.apply(self.shard.consumer_heartbeat(request, words.token, self.now()))

    def do_enter(self, words: Words) -> None:
        """A first heartbeat that says all that it must."""
        defaults = {"epoch": "0", "rebalance": "60000", "owned": ""}
        words.named = {**defaults, **words.named}
        if "regex" not in words.named:
            words.named.setdefault("topics", "t")
        self.do_beat(words)

    def do_describe_consumer(self, words: Words) -> None:
        self.apply(self.shard.consumer_describe(words.group, "describe"))

    def _owned(self, words: Words) -> records.Partitions | None:
        if "owned" not in words.named:
            return None
        owned: dict[bytes, list[int]] = {}
        for place in words.named["owned"].split(",") if words.named["owned"] else ():
            name, _, number = place.rpartition("-")
            topic = self.topics.get(name)
            assert topic is not None, name
            owned.setdefault(topic.topic_id, []).append(int(number))
        return records.in_order(owned)


def consumer_settings(words: Words) -> ConsumerSettings:
    return ConsumerSettings(
        members_max=words.number("members_max", 1_000),
        migration=MigrationPolicy(words.text("migration", "bidirectional")),
    )


def settings_of(words: Words, settings: GroupSettings) -> GroupSettings:
    return settings._replace(consumer=consumer_settings(words))


# ---- members of the classic protocol -------------------------------------------------------------


def offers(words: Words) -> tuple[GroupProtocol, ...]:
    """`consumes=t,u owned=t-0`: a subscription of the consumer protocol, as clients write it."""
    if "consumes" not in words.named:
        return ()
    body = {
        "topics": words.named["consumes"].split(","),
        "user_data": None,
        "owned_partitions": _topic_partitions(words.text("owned").split(",")),
    }
    return (GroupProtocol("range", encode_subscription(1, body)),)


def gifts(words: Words) -> dict[str, bytes]:
    """`gives=a-1:t-0/t-1,b-2:t-2`: what a leader assigns, as clients write it."""
    return {
        member: encode_assignment(1, {"assigned_partitions": _topic_partitions(given.split("/"))})
        for member, given in words.pairs("gives")
    }


def assigned(assignment: bytes) -> str:
    """What a leader has assigned, where it is more than a word of the conversation."""
    try:
        embedded = decode_assignment(assignment)
    except CodecError:
        return assignment.decode()
    topics = embedded.body["assigned_partitions"] if embedded else ()
    shown = [f"{each['topic']}-{number}" for each in topics for number in each["partitions"]]
    return "/".join(shown) if shown or not embedded else "none"


def _topic_partitions(places: Iterable[str]) -> list[dict[str, object]]:
    by_topic: dict[str, list[int]] = {}
    for place in filter(None, places):
        name, _, number = place.rpartition("-")
        by_topic.setdefault(name, []).append(int(number))
    return [{"topic": name, "partitions": numbers} for name, numbers in by_topic.items()]


# ---- how things are shown ------------------------------------------------------------------------


def partitions(held: records.Partitions) -> str:
    return (
        ",".join(
            f"{topic.partition(b'/')[0].decode()}-{number}"
            for topic, numbers in sorted(held.items())
            for number in numbers
        )
        or "none"
    )


def record(each: records.ConsumerRecord) -> str:
    if isinstance(each, records.ConsumerEpochRecord):
        return f"epoch {_or_gone(each.epoch)}"
    if isinstance(each, records.TargetEpochRecord):
        return f"target epoch {_or_gone(each.epoch)}"
    if isinstance(each, records.TargetRecord):
        shown = None if each.partitions is None else partitions(each.partitions)
        return f"target {each.member_id} {_or_gone(shown)}"
    if isinstance(each, records.CurrentRecord):
        shown = None if each.current is None else _current(each.current)
        return f"current {each.member_id} {_or_gone(shown)}"
    if isinstance(each, records.RegexRecord):
        shown = None if each.resolved is None else ",".join(each.resolved.topics) or "none"
        return f"regex {each.regex} {_or_gone(shown)}"
    shown = None if each.member is None else _member(each.member)
    return f"member {each.member_id} {_or_gone(shown)}"


def _or_gone(shown: object) -> str:
    return "deleted" if shown is None else str(shown)


def _current(current: records.CurrentAssignment) -> str:
    words = [f"epoch={current.epoch}", current.state.name, partitions(current.assigned)]
    if current.revoking:
        words.append(f"revoking={partitions(current.revoking)}")
    return " ".join(words)


def _member(member: records.ConsumerMember) -> str:
    fields: Iterable[tuple[str, object]] = (
        ("topics", ",".join(member.topic_names)),
        ("regex", member.topic_regex),
        ("instance", member.instance_id),
        ("assignor", member.assignor),
        ("classic", "yes" if member.classic else ""),
    )
    return " ".join(f"{name}={value}" for name, value in fields if value)


def answer(response: ConsumerHeartbeatResponse | ConsumerGroupDescription) -> str:
    if isinstance(response, ConsumerGroupDescription):
        return _description(response)
    words = [response.error.value]
    if response.member_id is not None:
        words += [response.member_id, f"epoch={response.member_epoch}"]
    if response.assignment is not None:
        words.append(f"has={partitions(response.assignment)}")
    return " ".join(words)


def _description(group: ConsumerGroupDescription) -> str:
    words = [group.error.value, group.state]
    if group.state:
        words += [f"epoch={group.epoch}", f"target={group.target_epoch}", group.assignor]
    words += [
        f"{each.member.member_id}[epoch={each.current.epoch}"
        f" has={partitions(each.current.assigned)} shall={partitions(each.target)}]"
        for each in group.members
    ]
    return " ".join(words)
