"""Decisions of the authorizer: against a reference, and the rules of Kafka's documentation."""

import itertools
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest

from broker._native.log.topic_table import TopicTable
from broker.core.cluster import security_entries
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.security_entries import Kind, delete, put
from broker.core.cluster.slices import complete
from broker.core.security.acls import (
    Acl,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.core.security.authorizer import Authorizer, plain_host
from broker.model import security_limits
from broker.model.errors import StorageError
from broker.model.principal import ANONYMOUS, Principal
from tests.oracles import authorizer_oracle
from tests.support.memory_store import MemoryStore

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "192.0.2.7"
NAMES = ("a", "ab", "abc", "b", "*", "ba")
HOSTS = ("*", HOST, "192.0.2.8", "::1")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice")
ASKED_HOSTS = (HOST, "192.0.2.8", "::1", "0:0:0:0:0:0:0:1")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


class Store:
    """A metadata store with an image, and the authorizer that follows it."""

    def __init__(
        self, *acls: Acl, super_users: frozenset[str] = frozenset(), allows_unlisted: bool = False
    ) -> None:
        self._store = MemoryStore()
        self.image = ClusterImage()
        self._settings = (super_users, allows_unlisted)
        self.create(*acls)
        self.authorizer = self.make()

    def make(self) -> Authorizer:
        super_users, allows_unlisted = self._settings
        return Authorizer(
            self.image.security,
            TopicTable(),
            super_users=super_users,
            allows_unlisted=allows_unlisted,
        )

    def create(self, *acls: Acl) -> None:
        for acl in acls:
            self.write(acl.key, acl.value)

    def write(self, key: str, value: bytes) -> None:
        self._store.transact([], [put(Kind.ACL, key, value)])
        self._follow()

    def delete(self, *acls: Acl) -> None:
        for acl in acls:
            self._store.transact([], [delete(Kind.ACL, acl.key)])
        self._follow()

    def replace(self, *acls: Acl) -> Iterator[None]:
        """Change all entries, which the image has missed; yield while it learns of them."""
        stored = {acl.key: acl.value for acl in acls}
        old = self.image.security.entries(Kind.ACL)
        self._store.transact([], [delete(Kind.ACL, key) for key in old if key not in stored])
        self._store.transact([], [put(Kind.ACL, *each) for each in stored.items()])
        yield from self.image.load(*self._store.scan())

    def _follow(self) -> None:
        for changes in self._store.changes(self.image.revision):
            complete(self.image.apply(changes))

    def allows(
        self,
        operation: Operation,
        name: str = "t",
        principal: Principal = ALICE,
        host: str = HOST,
        resource: ResourceType = ResourceType.TOPIC,
    ) -> bool:
        return self.authorizer.allows(principal, host, operation, resource, name)


def acl(
    operation: Operation,
    name: str = "t",
    *,
    principal: str = "User:alice",
    host: str = "*",
    is_prefixed: bool = False,
    is_denial: bool = False,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    pattern_type = PatternType.PREFIXED if is_prefixed else PatternType.LITERAL
    permission = Permission.DENY if is_denial else Permission.ALLOW
    return Acl(Pattern(resource, name, pattern_type), principal, host, operation, permission)


def random_acl(rng: Random) -> Acl:
    return acl(
        rng.choice(OPERATIONS),
        rng.choice(NAMES),
        principal=rng.choice(PRINCIPALS),
        host=rng.choice(HOSTS),
        is_prefixed=rng.random() < 0.3,
        is_denial=rng.random() < 0.3,
        resource=rng.choice(TYPES),
    )


# ---- against the reference
# -------------------------------------------------------------------------------------------------


def test_random_decisions_are_those_of_a_reference_while_entries_come_and_go(
    request: pytest.FixtureRequest,
) -> None:
    rng = Random(request.config.getoption("--seed"))
    left = request.config.getoption("--authorizer-decisions")
    while left > 0:
        super_users = frozenset({"User:bob"} if rng.random() < 0.1 else ())
        allows_unlisted = rng.random() < 0.5
        store = Store(super_users=super_users, allows_unlisted=allows_unlisted)
        present: dict[str, Acl] = {}
        for _ in range(rng.randint(1, 12)):
            chosen = random_acl(rng)
            if present and rng.random() < 0.3:
                chosen = present.pop(rng.choice(list(present)))
                store.delete(chosen)
            else:
                present[chosen.key] = chosen
                store.create(chosen)
            for _ in range(50):
                asked = (
                    rng.choice(PRINCIPALS),
                    rng.choice(ASKED_HOSTS),
                    rng.choice(OPERATIONS[1:]),
                    rng.choice(TYPES),
                    rng.choice(NAMES),
                )
                principal = Principal(*asked[0].split(":"))
                wanted = authorizer_oracle.allows(
                    list(present.values()),
                    super_users,
                    allows_unlisted=allows_unlisted,
                    asked=(asked[0], plain_host(asked[1]), *asked[2:]),
                )
                assert store.authorizer.allows(principal, *asked[1:]) is wanted, (asked, present)
                left -= 1


def test_any_resource_is_allowed_if_some_name_is(request: pytest.FixtureRequest) -> None:
    # Every name that a pattern tells apart, and one that no entry is about.
    names = [*NAMES, *(f"{name}{end}" for name in NAMES for end in ("x", "bx", "abx")), "zz"]
    rng = Random(request.config.getoption("--seed"))
    for _ in range(request.config.getoption("--authorizer-decisions") // 20):
        acls = {each.key: each for each in (random_acl(rng) for _ in range(rng.randint(0, 6)))}
        store = Store(*acls.values())
        asked = (rng.choice(PRINCIPALS[:3]), HOST, Operation.WRITE, ResourceType.TOPIC)
        principal = Principal(*asked[0].split(":"))

        found = store.authorizer.allows_any(principal, *asked[1:])

        assert found is authorizer_oracle.allows_any(list(acls.values()), names, asked), acls


# ---- the rules
# -------------------------------------------------------------------------------------------------


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not Store().allows(Operation.READ)


def test_a_super_user_is_allowed_everything_also_what_is_denied() -> None:
    store = Store(
        acl(Operation.ALL, principal="User:*", is_denial=True),
        super_users=frozenset({"User:alice"}),
    )

    assert store.allows(Operation.READ)
    assert not store.allows(Operation.READ, principal=BOB)


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        (Operation.READ, Operation.DESCRIBE),
        (Operation.WRITE, Operation.DESCRIBE),
        (Operation.DELETE, Operation.DESCRIBE),
        (Operation.ALTER, Operation.DESCRIBE),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
        *((Operation.ALL, each) for each in Operation),
    ],
)
def test_an_operation_implies_another(given: Operation, implied: Operation) -> None:
    assert Store(acl(given)).allows(implied)


@pytest.mark.parametrize(
    "given", [Operation.CREATE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS]
)
def test_other_operations_do_not_imply_describe(given: Operation) -> None:
    assert not Store(acl(given)).allows(Operation.DESCRIBE)


def test_a_denied_describe_does_not_deny_read() -> None:
    store = Store(acl(Operation.READ), acl(Operation.DESCRIBE, is_denial=True))

    assert store.allows(Operation.READ)
    assert not store.allows(Operation.DESCRIBE)


@pytest.mark.parametrize(
    ("denied", "is_prefixed"), [("topic", False), ("to", True), ("*", False)], ids=str
)
@pytest.mark.parametrize(
    ("allowed", "allows_prefix"), [("topic", False), ("t", True), ("*", False)], ids=str
)
def test_a_denial_wins_whichever_is_narrower(
    denied: str, is_prefixed: bool, allowed: str, allows_prefix: bool
) -> None:
    store = Store(
        acl(Operation.READ, allowed, is_prefixed=allows_prefix),
        acl(Operation.READ, denied, is_prefixed=is_prefixed, is_denial=True),
    )

    assert not store.allows(Operation.READ, "topic")


def test_a_literal_star_is_every_name_and_a_prefixed_one_only_names_that_begin_with_it() -> None:
    literal = Store(acl(Operation.READ, "*"))
    prefixed = Store(acl(Operation.READ, "*", is_prefixed=True))

    assert literal.allows(Operation.READ, "any")
    assert not prefixed.allows(Operation.READ, "any")
    assert prefixed.allows(Operation.READ, "*any")


def test_everyone_includes_those_who_have_not_said_who_they_are() -> None:
    store = Store(acl(Operation.READ, principal="User:*"))

    assert store.allows(Operation.READ, principal=ANONYMOUS)


@pytest.mark.parametrize("principal", ["Group:alice", "User:Alice", "User:alic", "user:alice"])
def test_other_types_and_names_are_nobody(principal: str) -> None:
    assert not Store(acl(Operation.READ, principal=principal)).allows(Operation.READ)


@pytest.mark.parametrize("host", ["localhost", "192.0.2.0/24", "192.0.2.70", ""])
def test_a_host_is_an_address_and_no_name_or_network(host: str) -> None:
    assert not Store(acl(Operation.READ, host=host)).allows(Operation.READ)


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1", "0000::0001"])
@pytest.mark.parametrize("client", ["::1", "0:0:0:0:0:0:0:1"])
def test_an_ipv6_address_is_the_same_in_all_its_forms(host: str, client: str) -> None:
    assert Store(acl(Operation.READ, host=host)).allows(Operation.READ, host=client)


def test_unlisted_resources_are_allowed_if_configured_and_listed_ones_are_not() -> None:
    store = Store(acl(Operation.READ, principal="User:bob"), allows_unlisted=True)

    assert not store.allows(Operation.READ, "t")
    assert store.allows(Operation.READ, "other")


@pytest.mark.parametrize(
    "name",
    [
        "CN=alice,OU=Dev,O=Acme",
        "ü名",
        "a b",
        "a:b:c",
        "",
        "*x",
        "a\\,b",
        "a\0b",
        "'\"; DROP",
        "%2C",
    ],
)
def test_principals_with_odd_characters_are_who_they_are(name: str) -> None:
    store = Store(acl(Operation.READ, principal=f"User:{name}"))

    assert store.allows(Operation.READ, principal=Principal("User", name))
    assert not store.allows(Operation.READ, principal=Principal("User", name + "x"))
    assert not store.allows(Operation.READ)


# ---- entries
# -------------------------------------------------------------------------------------------------


def test_a_change_is_in_force_with_the_next_decision() -> None:
    store = Store()
    allowed, denied = acl(Operation.READ), acl(Operation.READ, is_denial=True)
    assert not store.allows(Operation.READ)

    store.create(allowed)
    assert store.allows(Operation.READ)
    store.create(denied)
    assert not store.allows(Operation.READ)
    store.delete(denied)
    assert store.allows(Operation.READ)
    store.delete(allowed)
    assert not store.allows(Operation.READ)


def test_an_entry_for_one_address_separates_decisions_that_were_the_same_before() -> None:
    store = Store(acl(Operation.READ))
    assert store.allows(Operation.READ, host="192.0.2.8")

    store.create(acl(Operation.READ, host="192.0.2.8", is_denial=True))

    assert store.allows(Operation.READ, host=HOST)
    assert not store.allows(Operation.READ, host="192.0.2.8")


def allowed(authorizer: Authorizer) -> set[tuple[object, ...]]:
    asked = itertools.product((ALICE, BOB), (HOST, "::1"), OPERATIONS, TYPES, NAMES)
    return {each for each in asked if authorizer.allows(*each)}


@pytest.mark.parametrize("allows_unlisted", [False, True])
def test_while_many_changes_are_learned_nothing_is_allowed_that_never_was(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, allows_unlisted: bool
) -> None:
    monkeypatch.setattr(security_entries, "SECURITY_ENTRIES_TOLD_PER_STEP", 1)
    rng = Random(request.config.getoption("--seed"))
    for _ in range(20):
        old, new = ([random_acl(rng) for _ in range(6)] for _ in range(2))
        store = Store(*old, allows_unlisted=allows_unlisted)
        before = allowed(store.authorizer)
        after = allowed(Store(*new, allows_unlisted=allows_unlisted).authorizer)

        for _ in store.replace(*new):
            assert allowed(store.authorizer) <= before | after

        assert allowed(store.authorizer) == after


def test_an_entry_that_can_be_read_again_allows_once_all_others_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(security_entries, "SECURITY_ENTRIES_TOLD_PER_STEP", 1)
    removed, mended = acl(Operation.READ, "removed"), acl(Operation.READ, "mended")
    store = Store()
    store.write(mended.key, b"damaged")
    store.create(*(acl(Operation.WRITE, name) for name in NAMES), removed)

    for _ in store.replace(mended):
        assert not store.allows(Operation.READ, "removed")

    assert store.allows(Operation.READ, "mended")


def test_the_native_paths_forget_with_each_change_what_was_allowed() -> None:
    store = Store()
    known = store.authorizer.permissions(ALICE, HOST)
    assert store.authorizer.permissions(ALICE, HOST) is known
    assert not known.is_unlimited

    before = store.authorizer.view(ALICE, HOST)
    store.create(acl(Operation.READ, principal="User:bob"))

    assert store.authorizer.view(ALICE, HOST) != before
    assert (
        Store(super_users=frozenset({"User:alice"}))
        .authorizer.permissions(ALICE, HOST)
        .is_unlimited
    )


def test_a_damaged_entry_ends_a_start() -> None:
    store = Store()
    store.write("damaged", b'{"version": 2}')

    with pytest.raises(StorageError, match="damaged"):
        store.make()


def test_while_an_entry_cannot_be_read_only_super_users_are_allowed_anything() -> None:
    store = Store(acl(Operation.READ, principal="User:*"), super_users=frozenset({"User:bob"}))

    store.write("damaged", b"{")
    assert not store.allows(Operation.READ)
    assert store.allows(Operation.READ, principal=BOB)

    store.write("damaged", acl(Operation.WRITE).value)
    assert store.allows(Operation.READ)


def test_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.core.security.authorizer.DECISIONS_KEPT_MAX", 10)
    store = Store(acl(Operation.READ, "1", is_prefixed=True))

    found = [store.allows(Operation.READ, str(number)) for number in range(100)]

    assert found == [str(number).startswith("1") for number in range(100)]
    assert len(store.authorizer._decided) <= 10


def test_an_entry_that_is_made_twice_is_once_there() -> None:
    store = Store(acl(Operation.READ), acl(Operation.READ))

    assert len(store.authorizer) == 1
    store.delete(acl(Operation.READ))
    assert not store.allows(Operation.READ)


# ---- filters
# -------------------------------------------------------------------------------------------------

STORED = (
    acl(Operation.READ, "topic"),
    acl(Operation.WRITE, "topic", principal="User:bob", host=HOST),
    acl(Operation.READ, "to", is_prefixed=True),
    acl(Operation.ALL, "*", is_denial=True),
    acl(Operation.READ, "topic", resource=ResourceType.GROUP),
    acl(Operation.READ, "topic", is_prefixed=True),
)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        (Filter(), {0, 1, 2, 3, 4, 5}),
        (Filter(ResourceType.TOPIC), {0, 1, 2, 3, 5}),
        (Filter(ResourceType.TOPIC, "topic"), {0, 1, 5}),
        (Filter(ResourceType.TOPIC, "topic", is_match=True), {0, 1, 2, 3, 5}),
        (Filter(ResourceType.TOPIC, "topic", PatternType.LITERAL), {0, 1}),
        (Filter(ResourceType.TOPIC, "topic", PatternType.PREFIXED), {5}),
        (Filter(ResourceType.TOPIC, "*", PatternType.LITERAL), {3}),
        (Filter(ResourceType.TOPIC, "*", is_match=True), {3}),
        (Filter(ResourceType.TOPIC, "t", is_match=True), {3}),
        (Filter(principal="User:bob"), {1}),
        (Filter(host=HOST), {1}),
        (Filter(host="192.0.2.8"), set()),
        (Filter(operation=Operation.ALL), {3}),
        (Filter(operation=Operation.READ), {0, 2, 4, 5}),
        (Filter(permission=Permission.DENY), {3}),
    ],
    ids=str,
)
def test_a_filter_matches_as_in_kafka(wanted: Filter, places: set[int]) -> None:
    store = Store(*STORED)

    found = {each for each in store.authorizer.find(wanted) if each is not None}

    assert found == {STORED[place] for place in places}


def test_a_store_of_ten_thousand_entries_decides_by_the_few_that_matter() -> None:
    acls = [
        acl(Operation.READ, f"topic-{number}", principal=f"User:{number}")
        for number in range(10_000)
    ]
    store = Store()
    for each in acls:
        store.create(each)

    assert len(store.authorizer) == len(acls) <= security_limits.ACLS_MAX
    assert store.allows(Operation.READ, "topic-77", principal=Principal("User", "77"))
    assert not store.allows(Operation.READ, "topic-77", principal=Principal("User", "78"))
    index = store.authorizer._index
    assert len(index._of(ResourceType.TOPIC, "topic-77")) == 1


def test_decisions_on_long_names_are_right_but_take_no_memory() -> None:
    name = "n" * 32_767
    pattern = Pattern(ResourceType.TOPIC, "n", PatternType.PREFIXED)
    store = Store(Acl(pattern, str(ALICE), "*", Operation.READ, Permission.ALLOW))

    def allows(asked: str) -> bool:
        return store.authorizer.allows(ALICE, HOST, Operation.READ, ResourceType.TOPIC, asked)

    allows("n")
    tracemalloc.start()
    try:
        for number in range(200):
            assert allows(f"{name[:-4]}{number:04}")
            assert not allows(f"m{name[:-5]}{number:04}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20
