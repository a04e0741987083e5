"""Delegation tokens (KIP-48): short-lived credentials that a user gives to its jobs.

    security/token/<id>   owner, requester, renewers, issued_ms, expires_ms, ends_ms

A token's password is the HMAC of its id with delegation.token.secret.key, which is not stored, so
the metadata store contains nothing to log in with. A token works from its creation until it
expires, whether or not it has been removed by then.
"""

import asyncio
import hmac
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from broker.core.cluster.security_entries import Kind, delete, put
from broker.core.metadata import Metadata, change
from broker.core.scheduling.steps import in_steps
from broker.core.security.sasl.scram import ScramIdentity
from broker.model.clock import Clock
from broker.model.errors import ConfigError, ErrorCode, RequestError, StorageError
from broker.model.identifiers import id_to_text, random_id
from broker.model.limits import CHANGE_ATTEMPTS, CLUSTER_CHANGES_PER_TRANSACTION
from broker.model.principal import Principal, parse_principal
from broker.model.sasl_limits import TOKEN_CREDENTIALS_KEPT_MAX, TOKENS_READ_PER_STEP
from broker.model.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)

_log = logging.getLogger(__name__)
_DIGEST: Final = "sha512"


class DelegationToken(NamedTuple):
    """A token; its times are wall-clock times."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int  # it cannot be renewed beyond this

    def is_of(self, principal: Principal) -> bool:
        """Whether the principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers


class TokenTimes(NamedTuple):
    """The settings of the times of tokens."""

    expiry_ms: int
    lifetime_max_ms: int
    check_ms: int


class Tokens:
    """The tokens of a broker or cluster."""

    def __init__(self, known: Metadata, clock: Clock, secret: bytes, times: TokenTimes) -> None:
        """Keep the metadata that has them, and the secret that their passwords are made with."""
        self._metadata = known
        self._clock = clock
        self._secret = secret
        self.times = times
        self._ids: dict[bytes, str] = {}  # by password
        # Written by the thread of logins only.
        self._derived: dict[tuple[str, str], ScramCredential] = {}
        for token_id in known.image.security.entries(Kind.TOKEN):
            self._ids[self.password(token_id)] = token_id
        known.image.security.watch(Kind.TOKEN, self._changed)

    # ---- reading
    # ---------------------------------------------------------------------------------------------

    def password(self, token_id: str) -> bytes:
        """Return the HMAC that clients log in with."""
        return hmac.digest(self._secret, token_id.encode(), _DIGEST)

    def get(self, token_id: str) -> DelegationToken | None:
        """Return a token, expired or not; StorageError if it is damaged."""
        stored = self._metadata.image.security.entries(Kind.TOKEN).get(token_id)
        return None if stored is None else _parse(token_id, stored)

    async def all(self) -> list[DelegationToken]:
        """Return all tokens that have not expired."""
        now_ms = self._clock.wall_ms()
        stored = in_steps(self._stored(), TOKENS_READ_PER_STEP)
        return [each async for each in stored if each.expires_ms > now_ms]

    def _stored(self) -> Iterator[DelegationToken]:
        """Yield the tokens, expired or not: to be taken in steps, they may change in between.

        One that is damaged is left out, so that the others are described and removed.
        """
        for token_id in list(self._metadata.image.security.entries(Kind.TOKEN)):
            try:
                token = self.get(token_id)
            except StorageError as error:
                _log.error("a delegation token cannot be read, delete it: error=%s", error)
                continue
            if token is not None:
                yield token

    def identity(
        self, token_id: str, mechanism: ScramMechanism, now_ms: int
    ) -> Callable[[], ScramIdentity] | ScramIdentity | None:
        """Return whom a token is of; None if nobody can log in with it.

        Its keys are derived in another thread, and kept for its next logins.
        """
        token = self.get(token_id)
        if token is None or token.expires_ms <= now_ms:
            return None
        kept = self._derived.get((token_id, mechanism.name))
        if kept is not None:
            return _identity(token, kept)

        def derive() -> ScramIdentity:
            credential = self._credential(token_id, mechanism)
            if len(self._derived) >= TOKEN_CREDENTIALS_KEPT_MAX:
                del self._derived[next(iter(self._derived))]
            self._derived[token_id, mechanism.name] = credential
            return _identity(token, credential)

        return derive

    def _credential(self, token_id: str, mechanism: ScramMechanism) -> ScramCredential:
        salt = hmac.digest(self._secret, f"salt {token_id}".encode(), _DIGEST)[:SALT_BYTES]
        text = b64encode(self.password(token_id)).decode()
        salted = salted_password(mechanism, text, salt, ITERATIONS_MIN)
        return credential_of(mechanism, salted, salt, ITERATIONS_MIN)

    # ---- changing
    # ---------------------------------------------------------------------------------------------

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: Sequence[Principal],
        lifetime_ms: int,
    ) -> DelegationToken:
        """Create a token; RequestError if that is not possible."""
        self._metadata.image.security.check_room(Kind.TOKEN, 1)
        now_ms = self._clock.wall_ms()
        longest_ms = self.times.lifetime_max_ms
        lifetime_ms = longest_ms if lifetime_ms <= 0 else min(lifetime_ms, longest_ms)
        ends_ms = now_ms + lifetime_ms
        expires_ms = min(ends_ms, now_ms + self.times.expiry_ms)
        token = DelegationToken(
            id_to_text(random_id()),
            owner,
            requester,
            tuple(renewers),
            now_ms,
            expires_ms,
            ends_ms,
        )
        await self._put(token)
        return token

    async def renew(self, password: bytes, principal: Principal, period_ms: int) -> DelegationToken:
        """Move a token's expiry; RequestError if that is not allowed."""
        period_ms = self.times.expiry_ms if period_ms <= 0 else period_ms
        return await self._move(password, principal, period_ms)

    async def expire(
        self, password: bytes, principal: Principal, period_ms: int
    ) -> DelegationToken:
        """Set a token's expiry, or remove it at once if the period is negative."""
        if period_ms >= 0:
            return await self._move(password, principal, period_ms)
        token = self._own(password, principal)
        await change(self._metadata, [], [delete(Kind.TOKEN, token.token_id)])
        return token._replace(expires_ms=self._clock.wall_ms())

    async def run(self) -> None:
        """Remove tokens that have expired, now and then."""
        while True:
            await asyncio.sleep(self.times.check_ms / 1000)
            try:
                await self.remove_expired()
            except RequestError as error:  # the store: the next time
                _log.warning("expired delegation tokens stay: error=%s", error)

    async def remove_expired(self) -> int:
        """Remove the tokens that have expired; return their number."""
        now_ms = self._clock.aged_ms()
        stored = in_steps(self._stored(), TOKENS_READ_PER_STEP)
        names = [each.token_id async for each in stored if each.expires_ms <= now_ms]
        for first in range(0, len(names), CLUSTER_CHANGES_PER_TRANSACTION):
            some = names[first : first + CLUSTER_CHANGES_PER_TRANSACTION]
            guards = [self._metadata.image.security.guard(Kind.TOKEN, each) for each in some]
            await change(self._metadata, guards, [delete(Kind.TOKEN, each) for each in some])
        return len(names)

    def _own(self, password: bytes, principal: Principal) -> DelegationToken:
        token_id = self._ids.get(password)
        token = None if token_id is None else self.get(token_id)
        if token is None:
            raise RequestError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.is_of(principal):
            raise RequestError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    async def _move(self, password: bytes, principal: Principal, period_ms: int) -> DelegationToken:
        """Set a token's expiry, unless somebody removes it meanwhile: then it stays removed."""
        for _ in range(CHANGE_ATTEMPTS):
            token, now_ms = self._own(password, principal), self._clock.wall_ms()
            if token.ends_ms < now_ms or token.expires_ms < now_ms:
                raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            moved = token._replace(expires_ms=min(token.ends_ms, now_ms + period_ms))
            if await self._put(moved):
                return moved
        raise RequestError(ErrorCode.REQUEST_TIMED_OUT, "it is being changed: try again")

    async def _put(self, token: DelegationToken) -> bool:
        """Store a token; return whether nobody else has changed it meanwhile."""
        value = {
            "version": 1,
            "owner": str(token.owner),
            "requester": str(token.requester),
            "renewers": [str(each) for each in token.renewers],
            "issued_ms": token.issued_ms,
            "expires_ms": token.expires_ms,
            "ends_ms": token.ends_ms,
        }
        operation = put(Kind.TOKEN, token.token_id, json.dumps(value).encode())
        guard = self._metadata.image.security.guard(Kind.TOKEN, token.token_id)
        return await change(self._metadata, [guard], [operation]) is not None

    def _changed(self, _: Kind, token_id: str, value: bytes | None) -> None:
        if value is None:
            self._ids.pop(self.password(token_id), None)
        else:
            self._ids[self.password(token_id)] = token_id


def _identity(token: DelegationToken, credential: ScramCredential) -> ScramIdentity:
    return ScramIdentity(
        token.owner.name, credential, ends_ms=token.expires_ms, token_id=token.token_id
    )


def _parse(token_id: str, stored: bytes) -> DelegationToken:
    try:
        value = json.loads(stored)
        return DelegationToken(
            token_id,
            parse_principal(value["owner"]),
            parse_principal(value["requester"]),
            tuple(map(parse_principal, value["renewers"])),
            int(value["issued_ms"]),
            int(value["expires_ms"]),
            int(value["ends_ms"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise StorageError(f"the metadata store has a damaged token {token_id}") from error
