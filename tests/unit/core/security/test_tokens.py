"""Delegation tokens that several clients change at once."""

import asyncio

import pytest

from broker.core.security.tokens import DelegationToken, Tokens, TokenTimes
from broker.model.errors import RequestError
from broker.model.principal import USER, Principal
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
    assert tokens.all() == []
