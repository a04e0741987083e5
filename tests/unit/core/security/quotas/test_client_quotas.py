"""Quotas of clients: stored, in force on every broker, and found for a session."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker._native.wire.quota import ClientQuota
from broker.core.cluster.security_entries import Kind
from broker.core.security.quotas.client_quotas import ClientQuotas
from broker.core.security.quotas.entities import DEFAULT, Changes, Entity
from broker.core.security.quotas.windows import Windows
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.listener import UNSECURED, SecurityProtocol
from broker.model.principal import Principal
from broker.storage import metadata
from tests.support.fakes import FakeBroker

WINDOWS = Windows(2, 1_000)
ALICE = Entity("alice")
RATE = "producer_byte_rate"


class Limiter:
    """What native code would be told."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.epochs: list[int] = []
        self.find: Any = None

    def __call__(self, find: Any, epoch: int) -> None:
        """Take it."""
        self.find = find
        self.epochs.append(epoch)


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def limiter(broker: FakeBroker) -> Limiter:
    limiter = Limiter()
    broker.quotas.limit(limiter)
    return limiter


def alter(broker: FakeBroker, entity: Entity, **changes: float | None) -> None:
    asyncio.run(broker.quotas.alter({entity: changes}))


def session_of(broker: FakeBroker, user: str = "alice") -> Session:
    return Session(broker.broker, "h", "l", 1, UNSECURED, Principal("User", user))


def found(broker: FakeBroker, user: str = "alice", client_id: bytes | None = b"c") -> ClientQuota:
    return broker.quotas.find(session_of(broker, user), client_id)


def test_native_code_is_asked_for_nothing_until_a_client_has_a_quota(
    broker: FakeBroker, limiter: Limiter
) -> None:
    assert limiter.find is None
    alter(broker, Entity(ip=DEFAULT), connection_creation_rate=5.0)
    assert limiter.find is None

    alter(broker, ALICE, producer_byte_rate=5.0)
    assert limiter.find == broker.quotas.find
    assert limiter.epochs == sorted(set(limiter.epochs))

    alter(broker, ALICE, producer_byte_rate=None)
    assert limiter.find is None


def test_an_altered_quota_is_in_force_at_return(broker: FakeBroker, limiter: Limiter) -> None:
    alter(broker, ALICE, producer_byte_rate=5.0, consumer_byte_rate=6.0)
    before = found(broker)
    alter(broker, ALICE, producer_byte_rate=7.0)

    after = found(broker)

    assert after.epoch > before.epoch
    assert (after.writes, after.reads) == (before.writes, before.reads)
    assert after.writes is not None
    assert after.writes.bound == 7.0


def test_a_quota_is_there_after_a_start(broker: FakeBroker) -> None:
    alter(broker, ALICE, producer_byte_rate=5.0, request_percentage=0.5)
    alter(broker, Entity(ip="10.0.0.1"), connection_creation_rate=3.0)

    again = ClientQuotas(broker.metadata, WINDOWS, WINDOWS, lambda: 0)

    quota = again.find(session_of(broker), None)
    assert quota.writes is not None
    assert quota.time is not None
    assert (quota.writes.bound, quota.time.bound) == (5.0, 0.5)
    assert (quota.reads, quota.mutations) == (None, None)
    assert again.connection_rate("10.0.0.1") == 3.0


def test_what_another_broker_alters_is_in_force_here(broker: FakeBroker, limiter: Limiter) -> None:
    key = metadata.security_key(Kind.QUOTA.text, str(ALICE))
    stored = b'{"version": 1, "quotas": {"producer_byte_rate": 5}}'
    broker.store.transact([], [metadata.Put(key, stored)])

    broker.reload()

    assert limiter.find is not None
    assert found(broker).writes is not None


def test_a_damaged_entry_is_not_in_force_and_disturbs_no_other(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (str(ALICE), "nonsense"):
        key = metadata.security_key(Kind.QUOTA.text, name)
        broker.store.transact([], [metadata.Put(key, b"damaged")])
    alter(broker, Entity("bob"), producer_byte_rate=5.0)

    broker.reload()

    assert found(broker).is_unlimited
    assert not found(broker, "bob").is_unlimited
    assert "not in force" in caplog.text


def test_a_default_counts_for_each_user_by_itself(broker: FakeBroker) -> None:
    alter(broker, Entity(DEFAULT), producer_byte_rate=5.0)

    buckets = {found(broker, user, client).writes for user in "ab" for client in (b"1", b"2")}

    assert len(buckets) == 2
    assert found(broker, "a", b"3").writes in buckets


def test_a_quota_of_a_client_id_is_shared_by_all_users(broker: FakeBroker) -> None:
    alter(broker, Entity(None, "c"), producer_byte_rate=5.0)

    assert found(broker, "a").writes is found(broker, "b").writes
    assert found(broker, "a", b"other").is_unlimited


def test_a_client_without_an_id_has_the_default_of_client_ids(broker: FakeBroker) -> None:
    alter(broker, Entity(None, DEFAULT), producer_byte_rate=5.0)

    assert found(broker, client_id=None).writes is found(broker, client_id=b"").writes


def test_long_client_ids_are_told_apart(broker: FakeBroker) -> None:
    alter(broker, Entity(None, DEFAULT), producer_byte_rate=5.0)
    long = b"x" * 30_000

    assert found(broker, client_id=long).writes is found(broker, client_id=long).writes
    assert found(broker, client_id=long).writes is not found(broker, client_id=long + b"y").writes


def test_a_session_knows_what_limits_it(broker: FakeBroker) -> None:
    alter(broker, ALICE, producer_byte_rate=5.0)
    session = session_of(broker)

    assert broker.quotas.find(session, b"c") is session.quota


def test_the_requests_of_other_brokers_are_not_limited(broker: FakeBroker) -> None:
    alter(broker, Entity(DEFAULT), producer_byte_rate=5.0)
    session = session_of(broker)
    session.is_forwarded = True

    assert broker.quotas.find(session, b"c").is_unlimited


def test_who_has_not_logged_in_is_asked_for_again(broker: FakeBroker) -> None:
    alter(broker, Entity(DEFAULT), producer_byte_rate=5.0)
    session = session_of(broker, "ANONYMOUS")
    assert broker.quotas.find(session, b"c").epoch > 0

    session.listener = UNSECURED._replace(security=SecurityProtocol.SASL_SSL)

    assert broker.quotas.find(session, b"c").epoch == 0


def test_what_is_not_there_may_be_removed(broker: FakeBroker, limiter: Limiter) -> None:
    alter(broker, ALICE, producer_byte_rate=None)

    assert limiter.epochs == [limiter.epochs[0]]


def test_above_the_limit_of_entries_new_ones_are_refused(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kind.QUOTA, "entries_max", 2)
    entities: dict[Entity, Changes] = {Entity(name): {RATE: 5.0} for name in "ab"}
    asyncio.run(broker.quotas.alter(entities))

    with pytest.raises(RequestError) as refused:
        alter(broker, Entity("c"), producer_byte_rate=5.0)

    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    alter(broker, Entity("a"), producer_byte_rate=6.0)
    alter(broker, Entity("a"), producer_byte_rate=None)
    alter(broker, Entity("c"), producer_byte_rate=5.0)


def test_a_failing_store_changes_nothing(broker: FakeBroker, limiter: Limiter) -> None:
    broker.store.is_broken = True

    with pytest.raises(RequestError):
        alter(broker, ALICE, producer_byte_rate=5.0)

    assert limiter.find is None


class Raced:
    """Metadata that another broker changes just before this one does, once."""

    def __init__(self, broker: FakeBroker, stored: bytes) -> None:
        """Let the other broker store that for Alice."""
        self.broker = broker
        self.image = broker.metadata.image
        self.stored = [stored]

    async def get(self, key: bytes) -> metadata.KeyValue | None:
        """Return a key."""
        return await self.broker.metadata.get(key)

    async def transact(
        self, guards: Sequence[metadata.Guard], operations: Sequence[metadata.Operation]
    ) -> int | None:
        """Let the other one be first."""
        if self.stored:
            key = metadata.security_key(Kind.QUOTA.text, str(ALICE))
            self.broker.store.transact([], [metadata.Put(key, self.stored.pop())])
            self.broker.reload()
        return await self.broker.metadata.transact(guards, operations)


def test_a_change_that_another_broker_was_first_with_is_made_on_top_of_it(
    broker: FakeBroker,
) -> None:
    alter(broker, ALICE, producer_byte_rate=5.0)
    raced = Raced(broker, b'{"version": 1, "quotas": {"consumer_byte_rate": 6}}')
    quotas = ClientQuotas(raced, WINDOWS, WINDOWS, lambda: 0)

    asyncio.run(quotas.alter({ALICE: {"producer_byte_rate": 7.0}}))

    quota = quotas.find(session_of(broker), b"c")
    assert quota.writes is not None
    assert quota.reads is not None
    assert (quota.writes.bound, quota.reads.bound) == (7.0, 6.0)
