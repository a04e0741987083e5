"""The users of the metadata store: their SCRAM credentials, from which no password can be read.

    security/scram/<mechanism>/<user>   salt, stored_key, server_key (base64), iterations
    security/scram/made-up              secret: salts of users that do not exist are made from it

A user that does not exist has a made-up credential, which is the same at every broker and after
every start, so that nobody learns by logging in who exists. One of a listener's configuration has
the salt and the iterations of the made-up one, and keys that are derived at each login.
"""

import hmac
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple

from broker.core.cluster.security_entries import Kind, delete, put
from broker.core.metadata import Metadata, change
from broker.core.security.sasl.scram import ScramIdentity
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION
from broker.model.sasl_limits import USER_NAME_BYTES_MAX
from broker.model.scram import (
    ITERATIONS,
    MECHANISMS,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from broker.storage.metadata import Operation

_MADE_UP: Final = "made-up"
_SECRET_BYTES: Final = 32
_MODELS_MAX: Final = 64  # credentials that made-up ones are made alike


class Credential(NamedTuple):
    """A user's credential for one mechanism; None: it is deleted."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


class Users:
    """Users that are stored."""

    def __init__(self, known: Metadata, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        """Keep the metadata that has them."""
        self._metadata = known
        self._random_bytes = random_bytes
        self._own_secret = random_bytes(_SECRET_BYTES)  # until one is stored
        self._models: dict[str, list[str]] = {}  # names of credentials by mechanism, once needed
        self._modelled = self._entries  # what those names are of
        known.image.security.watch(Kind.SCRAM, self._changed)

    # ---- reading
    # ---------------------------------------------------------------------------------------------

    @property
    def _entries(self) -> Mapping[str, bytes]:
        return self._metadata.image.security.entries(Kind.SCRAM)

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of a user, if there is one."""
        stored = self._entries.get(_name(user, mechanism))
        return None if stored is None else parse_credential(stored)

    def identity(self, user: str, mechanism: ScramMechanism) -> ScramIdentity:
        """Return whom a name is of; for a user that does not exist it has made-up keys.

        These are made for users that exist, too: the time must not tell who does.
        """
        made_up = self.made_up(user, mechanism)
        credential = self.find(user, mechanism)
        return ScramIdentity(user, credential or made_up, is_known=credential is not None)

    def made_up(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return a credential that looks like those of users that exist."""
        digest = hmac.digest(self._secret(), _name(user, mechanism).encode(), "sha512")
        models = self._models_of(mechanism)
        key = digest[: mechanism.size]
        if not models:
            return ScramCredential(digest[:SALT_BYTES], key, key, ITERATIONS)
        model = parse_credential(self._entries[models[int.from_bytes(digest[-8:]) % len(models)]])
        return ScramCredential(_alike(model.salt, digest), key, key, model.iterations)

    def comparison(self, user: str, password: str) -> Callable[[], bool] | None:
        """Return what compares a password, for another thread; None: no user is stored at all."""
        models = [name for each in MECHANISMS.values() for name in self._models_of(each)]
        if not models:
            return None
        found = self.of(user)
        # A user that does not exist costs as much as one that does, of the mechanism of the latter.
        mechanism = (found or self.of(self._model(user, models)))[0].mechanism
        credential = self.find(user, mechanism) or self.made_up(user, mechanism)

        def compare() -> bool:
            salted = salted_password(mechanism, password, credential.salt, credential.iterations)
            derived = credential_of(mechanism, salted, credential.salt, credential.iterations)
            is_right = hmac.compare_digest(derived.stored_key, credential.stored_key)
            return is_right and bool(found)

        return compare

    def _model(self, user: str, models: Sequence[str]) -> str:
        """Return a user that exists, the same one for each name."""
        digest = hmac.digest(self._secret(), user.encode(), "sha512")
        return models[int.from_bytes(digest[-8:]) % len(models)].partition("/")[2]

    def _models_of(self, mechanism: ScramMechanism) -> Sequence[str]:
        """Return names of credentials of a mechanism: the same ones at every broker.

        They are sought once after each change, and not for each login: anybody can begin those.
        After a load the entries are others already, while watchers are still told of the changes.
        """
        if self._modelled is not self._entries:
            self._modelled = self._entries
            self._models.clear()
        found = self._models.get(mechanism.name)
        if found is None:
            prefix = _name("", mechanism)
            names = (each for each in self._entries if each.startswith(prefix))
            found = self._models[mechanism.name] = nsmallest(_MODELS_MAX, names)
        return found

    def _changed(self, _kind: Kind, _name: str, _stored: bytes | None) -> None:
        self._models.clear()

    def of(self, user: str) -> list[Credential]:
        """Return the credentials of a user."""
        found = ((each, self.find(user, each)) for each in MECHANISMS.values())
        return [Credential(user, *each) for each in found if each[1] is not None]

    def credentials(self) -> dict[str, list[Credential]]:
        """Return the credentials of all users, by user."""
        return {user: self.of(user) for user in self.names()}

    def names(self) -> Collection[str]:
        """Return the names of all users."""
        names = (each.partition("/")[::2] for each in self._entries)
        return dict.fromkeys(user for mechanism, user in names if mechanism in MECHANISMS)

    def _secret(self) -> bytes:
        stored = self._entries.get(_MADE_UP)
        return self._own_secret if stored is None else b64decode(json.loads(stored)["secret"])

    # ---- changing
    # ---------------------------------------------------------------------------------------------

    async def alter(self, changes: Sequence[Credential]) -> None:
        """Store and delete credentials, in transactions of CLUSTER_CHANGES_PER_TRANSACTION.

        Raises:
            RequestError: there is no room, or the store failed; some may have been changed.
        """
        image = self._metadata.image.security
        added = [each for each in changes if _name(each.user, each.mechanism) not in self._entries]
        image.check_room(Kind.SCRAM, len(added))
        operations = self.operations(changes)
        for first in range(0, len(operations), CLUSTER_CHANGES_PER_TRANSACTION):
            some = operations[first : first + CLUSTER_CHANGES_PER_TRANSACTION]
            await change(self._metadata, [], some)

    def operations(self, changes: Iterable[Credential]) -> list[Operation]:
        """Return the operations of these changes; RequestError for a name that is too long."""
        operations = [operation(each) for each in changes]
        if _MADE_UP not in self._entries:
            secret = {"version": 1, "secret": b64encode(self._own_secret).decode()}
            operations.append(put(Kind.SCRAM, _MADE_UP, json.dumps(secret).encode()))
        return operations


def _name(user: str, mechanism: ScramMechanism) -> str:
    return f"{mechanism.name}/{user}"


def operation(changed: Credential) -> Operation:
    """Return the operation that stores or deletes a credential."""
    name = _name(changed.user, changed.mechanism)
    if changed.credential is None:
        return delete(Kind.SCRAM, name)
    salt, stored_key, server_key, iterations = changed.credential
    value = {
        "version": 1,
        "salt": b64encode(salt).decode(),
        "stored_key": b64encode(stored_key).decode(),
        "server_key": b64encode(server_key).decode(),
        "iterations": iterations,
    }
    return put(Kind.SCRAM, name, json.dumps(value).encode())


def parse_credential(stored: bytes) -> ScramCredential:
    """Parse a stored credential; StorageError if it is damaged."""
    try:
        value = json.loads(stored)
        salt, stored_key, server_key = (
            b64decode(value[each]) for each in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored_key, server_key, int(value["iterations"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError("the metadata store has a damaged credential of a user") from error


def new_credential(
    mechanism: ScramMechanism,
    password: str,
    iterations: int = ITERATIONS,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> ScramCredential:
    """Derive the credential of a password: some milliseconds."""
    salt = random_bytes(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def with_password(
    mechanism: ScramMechanism, identity: ScramIdentity, password: str | None
) -> ScramIdentity:
    """Return an identity with the keys of a configured password, unless it is stored.

    Keys are derived for users that are stored or do not exist, too: the time tells no names.
    """
    salt, _, _, iterations = identity.credential
    salted = salted_password(mechanism, password or "", salt, iterations)
    if identity.is_known or password is None:
        return identity
    return ScramIdentity(identity.user, credential_of(mechanism, salted, salt, iterations))


def check_name(user: str) -> None:
    """Raise RequestError for a name that no user can have."""
    if not user or len(user.encode()) > USER_NAME_BYTES_MAX or "\0" in user:
        text = f"a user's name has 1 to {USER_NAME_BYTES_MAX} bytes, and no NUL"
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)


def _alike(salt: bytes, digest: bytes) -> bytes:
    """Return a salt of the same length and characters, made from a digest."""
    made = (digest * (len(salt) // len(digest) + 1))[: len(salt)]
    if not salt.isalnum():
        return made
    return bytes(b"0123456789abcdefghijklmnopqrstuvwxyz"[each % 36] for each in made)
