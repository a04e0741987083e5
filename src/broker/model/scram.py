"""SCRAM's keys (RFC 5802, RFC 7677), and what both sides of a login read and write of its messages.

    SaltedPassword  = PBKDF2(password, salt, iterations)
    StoredKey       = H(HMAC(SaltedPassword, "Client Key"))      the server keeps these two
    ServerKey       = HMAC(SaltedPassword, "Server Key")
    ClientProof     = ClientKey XOR HMAC(StoredKey, AuthMessage)
    ServerSignature = HMAC(ServerKey, AuthMessage)

Passwords and names are UTF-8 as given, without SASLprep, which Kafka and its clients do not use.
"""

import hashlib
import hmac
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4_096  # as in Kafka, and so is the maximum
ITERATIONS_MAX: Final = 16_384
ITERATIONS: Final = 8_192  # of users that `broker user` creates
SALT_BYTES: Final = 24


class ScramMechanism(NamedTuple):
    """One of SCRAM's mechanisms.

    Attributes:
        name: its name in SASL.
        digest: its hash function, as hashlib names it.
        number: Kafka's number of it in messages (KIP-554).
        size: of its keys, in bytes.
    """

    name: str
    digest: str
    number: int
    size: int


MECHANISMS: Final = {
    each.name: each
    for each in (
        ScramMechanism("SCRAM-SHA-256", "sha256", 1, 32),
        ScramMechanism("SCRAM-SHA-512", "sha512", 2, 64),
    )
}


class ScramCredential(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Derive the salted password: 1 to 8 ms, without Python's lock."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a server keeps of a salted password."""
    stored_key = stored_key_of(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored_key, server_key(mechanism, salted), iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the ClientKey of a salted password."""
    return hmac.digest(salted, b"Client Key", mechanism.digest)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the ServerKey of a salted password."""
    return hmac.digest(salted, b"Server Key", mechanism.digest)


def stored_key_of(mechanism: ScramMechanism, key: bytes) -> bytes:
    """Return the StoredKey of a ClientKey."""
    return hashlib.new(mechanism.digest, key).digest()


def proof(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    """Return the ClientProof of a ClientKey."""
    signature = hmac.digest(stored_key_of(mechanism, key), auth_message, mechanism.digest)
    return xor(key, signature)


def is_proven(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes, client_proof: bytes
) -> bool:
    """Return whether a proof is that of a credential's password; the time tells nothing."""
    signature = hmac.digest(credential.stored_key, auth_message, mechanism.digest)
    if len(client_proof) != len(signature):
        return False
    key = stored_key_of(mechanism, xor(client_proof, signature))
    return hmac.compare_digest(key, credential.stored_key)


def server_signature(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes
) -> bytes:
    """Return the ServerSignature, which proves to the client that the server has its credential."""
    return hmac.digest(credential.server_key, auth_message, mechanism.digest)


def xor(left: bytes, right: bytes) -> bytes:
    """Return the bitwise difference of two texts of one length."""
    size = len(left)
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(size, "big")


def escaped(name: str) -> str:
    """Return a name as messages have it: without commas and equal signs."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(text: str) -> str | None:
    """Return the name of a message; None if it is not one."""
    parts = text.split("=")
    if any(part[:2] not in {"2C", "3D"} for part in parts[1:]):
        return None
    return text.replace("=2C", ",").replace("=3D", "=")
