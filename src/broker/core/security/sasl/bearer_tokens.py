"""Checks of tokens (RFC 7519) against the keys of their authorization server (RFC 7517).

Only signatures with asymmetric keys count, of an algorithm that fits the type of the key: a token
cannot choose `none`, nor have a public key used as the secret of an HMAC. Addresses and keys in a
token's header (`jku`, `jwk`, `x5u`) are not used. joserfc, of the extra `oauth`, is imported by a
broker that offers OAUTHBEARER.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.core.security.sasl.oauthbearer import Bearer
from broker.model.errors import ConfigError
from broker.model.sasl_limits import TOKEN_HEADER_BYTES_MAX, TOKEN_KEYS_MAX

if TYPE_CHECKING:
    from joserfc.jwk import Key

_ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA", "Ed25519"),
}
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")  # JSON can have it, UTF-8 cannot
_LATEST_SECONDS: Final = 1 << 40  # far from what a wall clock in milliseconds can hold


class Claims(NamedTuple):
    """What a valid token must have.

    Attributes:
        audiences: of which it must name one; none: it may name any.
        issuer: who must have made it; None: anyone whose key is known.
        user_claim: the name of the claim with the user's name.
        skew_ms: by how much the clocks of both servers may differ.
    """

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    user_claim: str = "sub"
    skew_ms: int = 0


class UnknownKeyError(Exception):
    """A token names a key that is not known: it may be new."""


class TokenVerifier:
    """Checks tokens with one set of keys."""

    def __init__(self, keys: Sequence["Key"], claims: Claims) -> None:
        """Keep both."""
        from joserfc import jws  # noqa: PLC0415 (only a broker with OAUTHBEARER has it)

        self._keys = keys
        self._claims = claims
        self._jws = jws
        self._registry = jws.JWSRegistry(
            algorithms=[each for algorithms in _ALGORITHMS.values() for each in algorithms],
            strict_check_header=False,
        )
        self._registry.max_header_length = TOKEN_HEADER_BYTES_MAX

    def verify(self, token: str, now_ms: int) -> Bearer | str:
        """Return whose token it is, or why it is not valid; UnknownKeyError for an unknown key."""
        from joserfc.errors import JoseError  # noqa: PLC0415 (see __init__)

        try:
            signed = self._jws.extract_compact(token.encode(), registry=self._registry)
            header = signed.headers()
            candidates = self._candidates(header)
            if not any(self._is_signed_with(token, key) for key in candidates):
                return "wrong signature"
            payload = json.loads(signed.payload)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            return f"not a signed token: {type(error).__name__}"
        if not isinstance(payload, dict):
            return "not a set of claims"
        return check_claims(payload, self._claims, now_ms)

    def _candidates(self, header: dict[str, Any]) -> list["Key"]:
        algorithm, key_id = header["alg"], header.get("kid")
        fitting = [
            key
            for key in self._keys
            if algorithm in _ALGORITHMS[key.key_type]
            and key.get("use") in {None, "sig"}
            and key.get("alg") in {None, algorithm}
        ]
        named = [key for key in fitting if key_id is None or key.get("kid") == key_id]
        if key_id is not None and not any(key.get("kid") == key_id for key in self._keys):
            raise UnknownKeyError(str(key_id)[:100])
        return named

    def _is_signed_with(self, token: str, key: "Key") -> bool:
        from joserfc.errors import BadSignatureError  # noqa: PLC0415 (see __init__)

        try:
            self._jws.deserialize_compact(token, key, registry=self._registry)
        except BadSignatureError:
            return False
        return True


def parse_keys(text: str | bytes) -> list["Key"]:
    """Return the public keys of a JSON Web Key Set that sign tokens; raise ConfigError."""
    try:
        from joserfc import jwk  # noqa: PLC0415 (see the docstring of this module)
        from joserfc.errors import JoseError  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "OAUTHBEARER needs joserfc: install the extra polylog-broker[oauth]"
        ) from None
    try:
        rows = json.loads(text)["keys"]
        keys = [
            jwk.import_key(row) for row in rows[:TOKEN_KEYS_MAX] if row.get("kty") in _ALGORITHMS
        ]
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(f"not a JSON Web Key Set: {type(error).__name__}") from None
    if not keys:
        raise ConfigError("a JSON Web Key Set without public keys (RSA, EC, OKP)")
    return keys


def check_claims(payload: dict[str, Any], wanted: Claims, now_ms: int) -> Bearer | str:
    """Return whose token it is, or which claim makes it invalid."""
    expires, issued = _time_ms(payload.get("exp")), _time_ms(payload.get("iat"))
    begins = _time_ms(payload.get("nbf", 0))
    if expires is None or issued is None or begins is None:
        return "no time of expiry or issue"
    if expires + wanted.skew_ms <= now_ms:
        return "expired"
    if begins - wanted.skew_ms > now_ms:
        return "not valid yet"
    user = _user_of(payload, wanted)
    if user is None:
        return f"another issuer or audience, or no claim {wanted.user_claim}"
    return Bearer(user, expires if expires > now_ms else expires + wanted.skew_ms)


def _user_of(payload: dict[str, Any], wanted: Claims) -> str | None:
    """Return the user of a token for this broker; None for another token."""
    if wanted.issuer is not None and payload.get("iss") != wanted.issuer:
        return None
    audience = payload.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if wanted.audiences and not any(each in named for each in wanted.audiences):
        return None
    user = payload.get(wanted.user_claim)
    if not isinstance(user, str) or _HALF_CHARACTER.search(user):
        return None
    return user.strip() or None


def _time_ms(claim: object) -> int | None:
    if isinstance(claim, bool) or not isinstance(claim, (int, float)):
        return None
    # Compared first: a longer integer is no float, and NaN is not below anything.
    if not abs(claim) <= _LATEST_SECONDS:
        return None
    return int(claim * 1000)
