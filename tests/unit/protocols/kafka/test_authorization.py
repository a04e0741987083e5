"""What each API needs: the table is what is asked for, and every version has an answer without it.

The codes of the answers are tested against a real process (tests/security/acls).
"""

from pathlib import Path
from typing import Any

import pytest

from broker._native.log.permissions import PermissionEpoch, Permissions
from broker._native.log.topic_table import TopicTable
from broker.codec import schema
from broker.codec.schema import Definition
from broker.core.scheduling import steps
from broker.core.security import Security
from broker.core.security.acls import CLUSTER_NAME, Acl, Filter, Operation, ResourceType
from broker.core.security.users import Users
from broker.core.session import Session
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.model.principal import Principal
from broker.protocols.kafka import table
from tests.support.fakes import FakeBroker
from tests.unit.protocols.kafka.test_table import ALL_VERSIONS, SPECIAL, one_of_everything

AUTHORIZATION_CODES = {29, 30, 31, 53, 65}
ROOT = Path(__file__).parents[4]
ALICE = Principal("User", "alice")
# APIs that list only what the client may see, or have nothing to see: they are never refused.
NEVER_REFUSED = {
    "ApiVersions",
    "DescribeCluster",
    "DescribeDelegationToken",
    "ExpireDelegationToken",
    "ListGroups",
    "ListTransactions",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SaslHandshake",
    "CreateDelegationToken",  # for another owner only
}
# What one request of each version does not ask for: it depends on what there is.
DEPENDS: dict[str, set[tuple[Operation, ResourceType]]] = {
    # in the answer to a creation, which has happened by then
    "CreateTopics": {(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)},
    # of the topics of a transaction, or of a group's members
    "DescribeTransactions": {(Operation.DESCRIBE, ResourceType.TOPIC)},
    "ConsumerGroupDescribe": {(Operation.DESCRIBE, ResourceType.TOPIC)},
    # of replicas
    "Fetch": {(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)},
    # for a topic that is to be created
    "Metadata": {
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER),
    },
    "ListGroups": {(Operation.DESCRIBE, ResourceType.GROUP)},
    "ListTransactions": {(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)},
    "CreateDelegationToken": {(Operation.CREATE_TOKENS, ResourceType.USER)},
    "DescribeDelegationToken": {
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER),
    },
    # of groups, brokers and topics by one request each
    **{
        name: {(operation, ResourceType.CLUSTER), (operation, ResourceType.GROUP)}
        for name, operation in (
            ("DescribeConfigs", Operation.DESCRIBE_CONFIGS),
            ("AlterConfigs", Operation.ALTER_CONFIGS),
            ("IncrementalAlterConfigs", Operation.ALTER_CONFIGS),
        )
    },
}
VALID = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "principal": "User:bob",
    "protocol_type": "x",
    "protocol_name": "x",
    "topic_id": bytes(16),
}
RESOURCES_OF_CONFIGS = (2, 4, 32)  # a topic, a broker, a group


class Spy:
    """An authorizer that decides as it is told, and remembers what it was asked."""

    def __init__(self, *, is_allowed: bool) -> None:
        self.is_allowed = is_allowed
        self.asked: list[tuple[Operation, ResourceType, str | None]] = []

    def allows(
        self, _: Principal, __: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        assert resource is not ResourceType.CLUSTER or name == CLUSTER_NAME
        self.asked.append((operation, resource, name))
        return self.is_allowed

    def allows_any(
        self, _: Principal, __: str, operation: Operation, resource: ResourceType
    ) -> bool:
        self.asked.append((operation, resource, None))
        return self.is_allowed

    def permissions(self, _: Principal, __: str) -> Permissions:
        return Permissions(PermissionEpoch(), TopicTable())

    def find(self, _: Filter) -> list[Acl]:
        return []

    def view(self, _: Principal, __: str) -> object:
        return self


def body_of(key: int) -> dict[str, Any]:
    """Return a valid request with one element everywhere, of the topic `x`."""
    return _filled(schema.request(key).fields) | SPECIAL.get(key, {})


def _filled(definitions: list[Definition]) -> dict[str, Any]:
    value = one_of_everything(definitions)
    for each in definitions:
        if each.name in VALID:
            value[each.name] = VALID[each.name]
        elif each.fields and each.type.startswith("[]"):
            value[each.name] = [_filled(each.fields)]
    return value


def _with_id(value: Any, topic_id: bytes) -> Any:
    """Replace the ids of topics."""
    if isinstance(value, list):
        return [_with_id(each, topic_id) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _with_id(each, topic_id) for name, each in value.items()}
    return fields | ({"topic_id": topic_id} if "topic_id" in fields else {})


def asked(
    spy: Spy, key: int, version: int, body: dict[str, Any]
) -> tuple[set[tuple[Operation, ResourceType]], Any]:
    """Serve a request under a spy; return what it asked for, and the answer."""
    broker = FakeBroker()
    topic = broker.create("x")
    security = Security(authorizer=spy, users=Users(broker.metadata))  # type: ignore[arg-type]
    secured = broker.broker._replace(security=security)
    broker.session = Session(secured, "192.0.2.7", "broker.example", 9092, principal=ALICE)
    answer = broker.ask(key, version, **_with_id(body, topic.topic_id))
    return {(operation, resource) for operation, resource, _ in spy.asked}, answer


def codes_in(answer: Any) -> set[int]:
    """Return all error codes of an answer."""
    if isinstance(answer, dict):
        own = {value for name, value in answer.items() if name.endswith("error_code")}
        return own.union(*map(codes_in, answer.values()))
    return set().union(*map(codes_in, answer)) if isinstance(answer, list) else set()


@pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)
def test_an_api_asks_for_nothing_that_its_row_does_not_name(key: int, version: int) -> None:
    api = table.APIS[key]
    needs = {(need.operation, need.resource) for need in api.needs}
    if "Describe" in api.name or api.name == "Metadata":
        needs |= _of_authorized_operations(api.name)
    body = body_of(key)

    for is_allowed in (False, True):
        found, answer = asked(Spy(is_allowed=is_allowed), key, version, body)

        assert found <= needs
        if answer is not None and is_allowed:
            assert not codes_in(answer) & AUTHORIZATION_CODES


def _of_authorized_operations(name: str) -> set[tuple[Operation, ResourceType]]:
    """Return what an answer tells the client about itself, which it need not be allowed."""
    resources = {
        "Metadata": (ResourceType.TOPIC, ResourceType.CLUSTER),
        "DescribeTopicPartitions": (ResourceType.TOPIC,),
        "DescribeCluster": (ResourceType.CLUSTER,),
        "DescribeGroups": (ResourceType.GROUP,),
        "ConsumerGroupDescribe": (ResourceType.GROUP,),
    }
    return {(operation, each) for each in resources.get(name, ()) for operation in Operation}


@pytest.mark.parametrize("key", list(table.APIS))
def test_an_api_asks_for_everything_that_its_row_names(key: int) -> None:
    api = table.APIS[key]
    needs = {(need.operation, need.resource) for need in api.needs}
    found: set[tuple[Operation, ResourceType]] = set()
    bodies = [body_of(key)]
    if api.name.endswith("Configs"):
        bodies = [
            {**bodies[0], "resources": [{**each, "resource_type": number}]}
            for each in bodies[0]["resources"]
            for number in RESOURCES_OF_CONFIGS
        ]
    if api.name == "Produce":
        bodies.append({**bodies[0], "transactional_id": "x"})
    if api.name == "FindCoordinator":
        bodies = [{**bodies[0], "key_type": number} for number in (0, 1)]
    if api.name == "InitProducerId":
        bodies = [{**bodies[0], "transactional_id": each} for each in ("x", None)]
    if api.name == "Fetch":
        bodies.append({**bodies[0], "replica_id": 1, "replica_state": {"replica_id": 1}})
    if api.name == "Metadata":
        bodies.append(
            {
                "topics": [{"name": "new"}],
                "allow_auto_topic_creation": True,
            }
        )
    for version in api.versions:
        for body in bodies:
            for is_allowed in (False, True):
                found |= asked(Spy(is_allowed=is_allowed), key, version, body)[0]

    missing = needs - found
    assert missing <= DEPENDS.get(api.name, set())


@pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)
def test_a_request_that_is_not_allowed_has_an_answer_that_says_so(key: int, version: int) -> None:
    api = table.APIS[key]
    _, answer = asked(Spy(is_allowed=False), key, version, body_of(key))

    found = codes_in(answer) & AUTHORIZATION_CODES
    if api.name in NEVER_REFUSED:
        assert not found
    elif _has_no_code(api.name, version):
        assert answer is not None
    else:
        assert found, answer


def _has_no_code(name: str, version: int) -> bool:
    """Return whether an answer of this version has no place for the error of the whole request."""
    return name == "DescribeLogDirs" and version < 3


def test_the_documentation_has_what_each_api_needs() -> None:
    text = (ROOT / "docs/security/acls.md").read_text()
    section = text.partition("## What the Kafka APIs need")[2].partition("\n## ")[0]
    documented = {}
    for line in section.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] in schema.API_KEYS.values():
            documented[cells[0]] = cells[1]

    for api in table.APIS.values():
        needs = ", ".join(f"{each.operation.title} {each.resource.title}" for each in api.needs)
        assert documented.get(api.name) == (needs or "nothing"), api.name


@pytest.mark.parametrize(("key", "body"), [(3, {"topics": None}), (75, {"topics": []})])
def test_topics_that_are_hidden_are_left_out_in_steps(
    key: int, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = since_step = 0

    class Counting(Spy):
        def allows(self, *question: Any) -> bool:
            nonlocal longest, since_step
            since_step += 1
            longest = max(longest, since_step)
            return super().allows(*question)

    async def next_step() -> None:
        nonlocal since_step
        since_step = 0

    monkeypatch.setattr(steps, "next_step", next_step)
    broker = FakeBroker()
    for number in range(5 * PARTITIONS_ANSWERED_PER_STEP):
        broker.create(f"hidden-{number}")
    security = Security(authorizer=Counting(is_allowed=False), users=Users(broker.metadata))  # type: ignore[arg-type]
    secured = broker.broker._replace(security=security)
    broker.session = Session(secured, "192.0.2.7", "broker.example", 9092, principal=ALICE)

    assert broker.ask(key, table.APIS[key].versions[-1], **body)["topics"] == []
    assert 0 < longest <= 2 * PARTITIONS_ANSWERED_PER_STEP, "the next part is read ahead"
