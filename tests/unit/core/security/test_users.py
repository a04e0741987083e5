"""Users of the metadata store, and what is made up for those that do not exist."""

import asyncio
import itertools

import pytest

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.security_entries import SecurityEntries
from broker.core.cluster.slices import complete
from broker.core.security.users import (
    Credential,
    Users,
    check_name,
    new_credential,
    parse_credential,
    with_password,
)
from broker.model.errors import RequestError
from broker.model.scram import ITERATIONS, MECHANISMS, ScramCredential
from tests.support.fakes import FakeBroker
from tests.support.memory_store import MemoryStore

SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]


NEW = new_credential(SHA_256, "pw", 4096)


def loaded(store: MemoryStore) -> SecurityEntries:
    image = ClusterImage()
    complete(image.load(*store.scan()))
    return image.security


def users_with(*names: str, iterations: int = 4096) -> Users:
    users = Users(FakeBroker().metadata)
    changes = [
        Credential(each, SHA_256, new_credential(SHA_256, "pw", iterations)) for each in names
    ]
    asyncio.run(users.alter(changes))
    return users


def test_credentials_are_stored_and_found() -> None:
    users = users_with("alice", "a/b, c")

    assert set(users.credentials()) == {"alice", "a/b, c"}
    found = users.find("a/b, c", SHA_256)
    assert found is not None
    assert found.iterations == 4096
    assert users.find("alice", SHA_512) is None


def test_an_unknown_user_has_the_same_keys_at_every_broker_and_after_every_start() -> None:
    users = users_with("alice")
    again = Users(users._metadata)

    assert again.made_up("nobody", SHA_256) == users.made_up("nobody", SHA_256)
    assert users.made_up("nobody", SHA_256) != users.made_up("nobody2", SHA_256)
    assert users.made_up("nobody", SHA_256) != users.made_up("nobody", SHA_512)


def test_an_unknown_user_is_the_same_whatever_order_users_were_learned_in() -> None:
    """One has read them at its start, by name, another one as they were made."""
    users, again = Users(FakeBroker().metadata), Users(FakeBroker().metadata)
    changes = [
        Credential(f"user-{each}", SHA_256, new_credential(SHA_256, "pw", 4096 + each))
        for each in range(8)
    ]
    asyncio.run(users.alter(changes))
    again._own_secret = users._own_secret
    asyncio.run(again.alter(changes[::-1]))
    names = [f"nobody-{each}" for each in range(16)]

    made_up = [users.made_up(each, SHA_256) for each in names]
    assert [again.made_up(each, SHA_256) for each in names] == made_up
    assert len({each.iterations for each in made_up}) > 1


def test_an_unknown_user_follows_changes_of_those_that_exist() -> None:
    users = users_with("alice", iterations=5000)
    assert users.made_up("x", SHA_256).iterations == 5000

    asyncio.run(users.alter([Credential("alice", SHA_256, new_credential(SHA_256, "pw", 6000))]))
    assert users.made_up("x", SHA_256).iterations == 6000

    asyncio.run(users.alter([Credential("alice", SHA_256, None)]))
    assert users.made_up("x", SHA_256).iterations == ITERATIONS
    assert users.comparison("x", "pw") is None


def test_logins_go_on_while_the_users_of_another_load_are_learned() -> None:
    users = users_with("alice")
    image = users._metadata.image
    assert users.comparison("x", "pw") is not None
    store = MemoryStore()
    store.transact([], users.operations([Credential("bob", SHA_256, NEW)]))
    changed = complete(image.security.changed_in(loaded(store)))

    image.security.replace(loaded(store))  # watchers have not been told yet

    assert not users.identity("x", SHA_256).is_known
    compare = users.comparison("x", "pw")
    assert compare is not None
    assert not compare()
    complete(image.security.tell(changed))
    assert set(users.names()) == {"bob"}


def test_an_unknown_user_looks_like_the_others() -> None:
    users = users_with("alice", iterations=5000)
    known, made_up = users.identity("alice", SHA_256), users.identity("x", SHA_256)

    assert known.is_known
    assert not made_up.is_known
    assert made_up.credential.iterations == 5000
    assert len(made_up.credential.salt) == len(known.credential.salt)
    assert len(made_up.credential.stored_key) == len(known.credential.stored_key)


def test_a_challenge_takes_the_same_work_whether_its_user_exists_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within one reading of a credential, however many users there are."""
    users = users_with(*(f"user{each}" for each in range(20)))
    read = []

    def parse(stored: bytes) -> ScramCredential:
        read.append(stored)
        return parse_credential(stored)

    monkeypatch.setattr("broker.core.security.users.parse_credential", parse)
    users.identity("user7", SHA_256)
    of_known = len(read)
    users.identity("nobody", SHA_256)

    assert of_known - 1 <= len(read) - of_known <= of_known


def test_without_users_a_made_up_credential_is_like_new_ones() -> None:
    made_up = Users(FakeBroker().metadata).made_up("x", SHA_512)

    assert made_up.iterations == ITERATIONS


@pytest.mark.parametrize(
    ("user", "password", "is_right"),
    [("alice", "pw", True), ("alice", "pww", False), ("nobody", "pw", False)],
)
def test_a_password_is_compared(user: str, password: str, is_right: bool) -> None:
    compare = users_with("alice").comparison(user, password)

    assert compare is not None
    assert compare() is is_right


def test_without_users_no_password_is_compared() -> None:
    assert Users(FakeBroker().metadata).comparison("alice", "pw") is None


def derivations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Derive no keys from now on; the iterations of each derivation are put into the list."""
    found: list[object] = []

    def salted_password(*arguments: object) -> bytes:
        found.append(arguments[-1])
        return bytes(32)

    monkeypatch.setattr("broker.core.security.users.salted_password", salted_password)
    return found


def test_the_derivation_for_an_unknown_user_is_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    users = users_with("alice", iterations=4321)
    derived = derivations(monkeypatch)
    for user in ("alice", "nobody"):
        compare = users.comparison(user, "x")
        assert compare is not None
        compare()

    assert derived == [4321, 4321]


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_password_of_the_configuration_is_that_of_a_user_who_is_not_stored(
    is_stored: bool,
) -> None:
    users = users_with("alice") if is_stored else users_with("bob", iterations=5000)
    stored = users.identity("alice", SHA_256)

    found = with_password(SHA_256, stored, "configured")

    assert found.is_known
    if is_stored:
        assert found == stored
    else:
        salt, _, _, iterations = users.made_up("alice", SHA_256)
        made = new_credential(SHA_256, "configured", iterations, lambda _: salt)
        assert (found.user, found.credential) == ("alice", made)
        assert not with_password(SHA_256, stored, None).is_known


def test_the_keys_of_a_configured_password_take_as_long_as_those_of_any_other_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = users_with("alice", iterations=4321)
    derived = derivations(monkeypatch)
    for name, password in (("alice", None), ("alice", "pw"), ("bob", "pw"), ("nobody", None)):
        with_password(SHA_256, users.identity(name, SHA_256), password)

    assert derived == [4321] * 4


@pytest.mark.parametrize("name", ["", "x" * 256, "\u00e4" * 128, "a\0b"])
def test_a_name_that_nobody_can_have_is_refused(name: str) -> None:
    with pytest.raises(RequestError):
        check_name(name)


def test_many_changes_are_several_transactions() -> None:
    users = users_with()
    salts = itertools.count()
    credential = new_credential(SHA_256, "pw", 4096, lambda size: next(salts).to_bytes(size))

    asyncio.run(users.alter([Credential(f"u{each}", SHA_256, credential) for each in range(250)]))
    asyncio.run(users.alter([Credential(f"u{each}", SHA_256, None) for each in range(250)]))

    assert users.credentials() == {}
