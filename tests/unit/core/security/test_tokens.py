"""Delegation tokens that several clients change at once."""

import asyncio

import pytest

from broker.core.cluster.security_entries import Kind, put
from broker.core.metadata import change
from broker.core.security.tokens import DelegationToken, Tokens, TokenTimes
from broker.model.errors import RequestError, StorageError
from broker.model.principal import USER, Principal
from broker.model.sasl_limits import TOKENS_READ_PER_STEP
from tests.support.fakes import FakeBroker
from tests.support.manual_clock import ManualClock

HOUR_MS = 3_600_000
ALICE, BOB = Principal(USER, "alice"), Principal(USER, "bob")


@pytest.mark.parametrize("is_renewed_first", [False, True])
def test_a_token_that_is_removed_while_it_is_renewed_stays_removed(
    is_renewed_first: bool,
) -> None:
    """A renewer cannot bring back what the owner has revoked."""
    tokens = Tokens(
        FakeBroker().metadata, ManualClock(0), b"secret", TokenTimes(HOUR_MS, 24 * HOUR_MS, HOUR_MS)
    )

    async def both() -> list[DelegationToken | BaseException]:
        token = await tokens.create(ALICE, ALICE, [BOB], -1)
        password = tokens.password(token.token_id)
        requests = [tokens.expire(password, ALICE, -1), tokens.renew(password, BOB, HOUR_MS)]
        if is_renewed_first:
            requests.reverse()
        return await asyncio.gather(*requests, return_exceptions=True)

    for outcome in asyncio.run(both()):
        assert isinstance(outcome, (DelegationToken, RequestError))
    assert asyncio.run(tokens.all()) == []


def test_many_tokens_are_read_in_steps_and_those_that_have_expired_are_removed() -> None:
    clock = ManualClock(0)
    metadata = FakeBroker().metadata
    tokens = Tokens(metadata, clock, b"secret", TokenTimes(HOUR_MS, 24 * HOUR_MS, HOUR_MS))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def describe_and_remove() -> None:
        nonlocal turns
        for number in range(5 * TOKENS_READ_PER_STEP):
            await tokens.create(ALICE, BOB, [], HOUR_MS if number % 2 else 2)
        running = asyncio.create_task(others())
        await asyncio.sleep(0)
        turns = 0
        assert len(await tokens.all()) == 5 * TOKENS_READ_PER_STEP
        assert turns >= 4
        clock.advance(2)
        assert len(await tokens.all()) == 5 * TOKENS_READ_PER_STEP // 2
        turns = 0
        assert await tokens.remove_expired() == 5 * TOKENS_READ_PER_STEP // 2
        assert turns >= 4
        running.cancel()

    asyncio.run(describe_and_remove())


@pytest.mark.parametrize("stored", [b"{", b"[]", b'{"version": 2}', b'{"owner": "nobody"}'])
def test_a_damaged_token_does_not_keep_others_from_being_described_and_removed(
    stored: bytes,
) -> None:
    clock = ManualClock(0)
    metadata = FakeBroker().metadata
    tokens = Tokens(metadata, clock, b"secret", TokenTimes(HOUR_MS, 24 * HOUR_MS, HOUR_MS))

    async def describe_and_remove() -> None:
        await change(metadata, [], [put(Kind.TOKEN, "damaged", stored)])
        token = await tokens.create(ALICE, ALICE, [], 2)
        assert await tokens.all() == [token]
        clock.advance(2)
        assert await tokens.remove_expired() == 1

    asyncio.run(describe_and_remove())
    with pytest.raises(StorageError):
        tokens.get("damaged")
