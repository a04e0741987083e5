"""The commands of scenarios with consumer groups, and the text of their records and responses."""

from broker.codec.coordinator_records import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from broker.core.groups.commands.classic import GroupProtocol
from broker.core.groups.commands.consumer import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records import consumer as records
from broker.core.groups.settings import ConsumerSettings, GroupSettings, MigrationPolicy
from broker.model.errors import CodecError
from tests.scenarios.scenario import Arguments, Scenario
from tests.support.fakes import FakeTopics
from tests.support.subscriptions import by_topic, heard, place, said


class ConsumerScenario(Scenario[GroupShard]):
    """The commands of consumer groups; the others are those of test_scenarios.py."""

    topics: FakeTopics

    def do_topics(self, words: Arguments) -> None:
        """`topics t=3 u=0`: t has three partitions now, u is deleted."""
        for name, count in words.named.items():
            self.topics.put(name, int(count))

    def do_beat(self, words: Arguments) -> None:
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

    def do_enter(self, words: Arguments) -> None:
        """Send a first heartbeat with all required fields."""
        defaults = {"epoch": "0", "rebalance": "60000", "owned": ""}
        words.named = {**defaults, **words.named}
        if "regex" not in words.named:
            words.named.setdefault("topics", "t")
        self.do_beat(words)

    def do_describe_consumer(self, words: Arguments) -> None:
        self.apply(self.shard.consumer_describe(words.group, "describe"))

    def _owned(self, words: Arguments) -> records.Partitions | None:
        if "owned" not in words.named:
            return None
        owned = {}
        for name, numbers in by_topic(words.places("owned")).items():
            topic = self.topics.get(name)
            assert topic is not None, name
            owned[topic.topic_id] = numbers
        return records.in_order(owned)


def consumer_settings(words: Arguments) -> ConsumerSettings:
    return ConsumerSettings(
        members_max=words.number("members_max", 1_000),
        migration=MigrationPolicy(words.text("migration", "bidirectional")),
    )


def settings_of(words: Arguments, settings: GroupSettings) -> GroupSettings:
    return settings._replace(consumer=consumer_settings(words))


# ---- members of the classic protocol -------------------------------------------------------------


def offers(words: Arguments) -> tuple[GroupProtocol, ...]:
    """`consumes=t,u owned=t-0`: a subscription of the consumer protocol, as clients write it."""
    if "consumes" not in words.named:
        return ()
    body = {
        "topics": words.named["consumes"].split(","),
        "user_data": None,
        "owned_partitions": said(words.places("owned")),
    }
    return (GroupProtocol("range", encode_subscription(1, body)),)


def gifts(words: Arguments) -> dict[str, bytes]:
    """`gives=a-1:t-0/t-1,b-2:t-2`: a leader's assignment, as clients write it."""
    return {
        member: encode_assignment(1, {"assigned_partitions": said(map(place, given.split("/")))})
        for member, given in words.pairs("gives")
    }


def assigned(assignment: bytes) -> str:
    """Return a leader's assignment, if it is more than a word of the scenario."""
    try:
        embedded = decode_assignment(assignment)
    except CodecError:
        return assignment.decode()
    places = heard(embedded.body["assigned_partitions"]) if embedded else []
    shown = [f"{topic}-{number}" for topic, number in places]
    return "/".join(shown) if shown or not embedded else "none"


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
    fields: tuple[tuple[str, object], ...] = (
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
    words = [response.error.name]
    if response.member_id is not None:
        words += [response.member_id, f"epoch={response.member_epoch}"]
    if response.assignment is not None:
        words.append(f"has={partitions(response.assignment)}")
    return " ".join(words)


def _description(group: ConsumerGroupDescription) -> str:
    words = [group.error.name, group.state]
    if group.state:
        words += [f"epoch={group.epoch}", f"target={group.target_epoch}", group.assignor]
    words += [
        f"{each.member.member_id}[epoch={each.current.epoch}"
        f" has={partitions(each.current.assigned)} shall={partitions(each.target)}]"
        for each in group.members
    ]
    return " ".join(words)
