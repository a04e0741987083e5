"""Logging in over a bare socket, written from the RFCs: each message can be sent wrongly."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

from tests.support.wire_client import ConnectionClosedError, WireClient

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class RefusedLoginError(Exception):
    """The broker has refused a login: the code and the message."""

    def __init__(self, code: int, message: str | None) -> None:
        """Keep both."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class SaslClient(WireClient):
    """A Kafka client that can log in."""

    def choose(self, mechanism: str, version: int = 1) -> dict[str, Any]:
        """Send SaslHandshake."""
        return self.request("SaslHandshake", version, {"mechanism": mechanism})

    def token(self, message: bytes, version: int = 2) -> dict[str, Any]:
        """Send a message of the mechanism; raise RefusedLoginError."""
        answer = self.request("SaslAuthenticate", version, {"auth_bytes": message})
        if answer["error_code"]:
            raise RefusedLoginError(answer["error_code"], answer["error_message"])
        return answer

    def plain(self, user: str, password: str, *, authorization_id: str = "") -> dict[str, Any]:
        """Log in with PLAIN."""
        assert self.choose("PLAIN")["error_code"] == 0
        return self.token(f"{authorization_id}\0{user}\0{password}".encode())

    def scram(
        self, user: str, password: str, *, mechanism: str = "SCRAM-SHA-256", extensions: str = ""
    ) -> dict[str, Any]:
        """Log in with SCRAM; the last answer's signature is checked."""
        assert self.choose(mechanism)["error_code"] == 0
        client = ScramClient(mechanism, user, password, extensions=extensions)
        first = self.token(client.first())
        last = self.token(client.final(first["auth_bytes"]))
        assert last["auth_bytes"] == b"v=" + b64encode(client.signature)
        return last

    def is_open(self) -> bool:
        """Whether the broker serves requests on this connection."""
        try:
            self.request("Metadata", 12, {"topics": []})
        except ConnectionClosedError:
            return False
        return True


class ScramClient:
    """The messages of one SCRAM login."""

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        *,
        nonce: str = "rOprNGfwEbeRWgbNEkqO",
        header: str = "n,,",
        extensions: str = "",
    ) -> None:
        """Keep what the messages are made of."""
        self.digest = DIGESTS[mechanism]
        self.password = password
        self.header = header
        name = user.replace("=", "=3D").replace(",", "=2C")
        self.bare = f"n={name},r={nonce}{extensions}"
        self.signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes, nonce: str | None = None) -> bytes:
        """Return the final message, with a proof that is right for its nonce."""
        fields = dict(each.split("=", 1) for each in server_first.decode().split(","))
        salt, iterations = b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), salt, iterations)
        key = hmac.digest(salted, b"Client Key", self.digest)
        header = b64encode(self.header.encode()).decode()
        text = f"c={header},r={fields['r'] if nonce is None else nonce}"
        message = f"{self.bare},{server_first.decode()},{text}".encode()
        self.signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self.digest), message, self.digest
        )
        stored = hashlib.new(self.digest, key).digest()
        proof = bytes(
            a ^ b for a, b in zip(key, hmac.digest(stored, message, self.digest), strict=True)
        )
        return f"{text},p={b64encode(proof).decode()}".encode()
