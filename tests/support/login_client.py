"""A small Kafka client that logs in, over TLS if it gets a context; every message can be wrong.

SCRAM is computed here once more, by the RFCs, so that it proves the broker's.
"""

import hashlib
import hmac
import secrets
import ssl
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from broker.codec import Record, encode, records
from tests.support.wire_client import TIMEOUT_S, ConnectionClosedError, WireClient

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}  # in the order of KIP-554
SCRAM_ITERATIONS = 4096


class LoginFailedError(Exception):
    """The broker has refused a login, with this message."""

    def __init__(self, code: int, message: str) -> None:
        """Keep both."""
        super().__init__(f"{code}: {message}")
        self.code = code


class LoginClient(WireClient):
    """One connection."""

    def __init__(
        self, address: str, tls: ssl.SSLContext | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Connect; the handshake of TLS is done at return."""
        self._tls = tls
        super().__init__(address, timeout_s)

    def _connect(self) -> None:
        super()._connect()
        if self._tls is not None:
            host = self._address.rpartition(":")[0]
            self.socket = self._tls.wrap_socket(self.socket, server_hostname=host)

    # ---- logging in ------------------------------------------------------------------------------

    def choose(self, mechanism: str) -> list[str]:
        """Choose a mechanism; return those of the listener. Raises LoginFailedError."""
        answer = self.request("SaslHandshake", 1, {"mechanism": mechanism})
        if answer["error_code"]:
            raise LoginFailedError(answer["error_code"], ",".join(answer["mechanisms"]))
        return list(answer["mechanisms"])

    def respond(self, message: bytes) -> bytes:
        """Send a message of the mechanism; return the server's. Raises LoginFailedError."""
        answer = self.request("SaslAuthenticate", 2, {"auth_bytes": message})
        if answer["error_code"]:
            raise LoginFailedError(answer["error_code"], answer["error_message"])
        return bytes(answer["auth_bytes"])

    def log_in(self, user: str, password: str, mechanism: str = "PLAIN") -> None:
        """Log in; raise LoginFailedError if that is refused."""
        self.choose(mechanism)
        if mechanism == "PLAIN":
            self.respond(b"\0".join((b"", user.encode(), password.encode())))
        else:
            self._scram(user, password, SCRAM_HASHES[mechanism])

    def fail_to_log_in(self, user: str, password: str, mechanism: str = "PLAIN") -> str:
        """Log in, which must be refused; return the broker's message."""
        try:
            self.log_in(user, password, mechanism)
        except LoginFailedError as error:
            return str(error)
        raise AssertionError(f"{user} has logged in")

    def _scram(self, user: str, password: str, digest: str) -> None:
        nonce = secrets.token_hex(12)
        bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        challenge = self.respond(f"n,,{bare}".encode()).decode()
        given = dict(each.split("=", 1) for each in challenge.split(","))
        assert given["r"].startswith(nonce)
        salt, iterations = b64decode(given["s"]), int(given["i"])
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
        key = hmac.digest(salted, b"Client Key", digest)
        without_proof = f"c=biws,r={given['r']}"
        signed = f"{bare},{challenge},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
        proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
        final = self.respond(f"{without_proof},p={b64encode(proof).decode()}".encode())
        expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
        assert final == b"v=" + b64encode(expected)

    # ---- administration --------------------------------------------------------------------------

    def create_topic(self, name: str) -> None:
        """Create a topic with one partition."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        body = {"topics": [topic | {"assignments": [], "configs": []}], "timeout_ms": 10_000}
        [answer] = self.request("CreateTopics", 7, body)["topics"]
        assert answer["error_code"] == 0, answer

    def put_scram_user(self, user: str, password: str, mechanism: str) -> None:
        """Create a user, or set the password."""
        salt = secrets.token_bytes(16)
        digest = SCRAM_HASHES[mechanism]
        row = {
            "name": user,
            "mechanism": [*SCRAM_HASHES].index(mechanism) + 1,
            "iterations": SCRAM_ITERATIONS,
            "salt": salt,
            "salted_password": hashlib.pbkdf2_hmac(
                digest, password.encode(), salt, SCRAM_ITERATIONS
            ),
        }
        body = {"deletions": [], "upsertions": [row]}
        [answer] = self.request("AlterUserScramCredentials", 0, body)["results"]
        assert answer["error_code"] == 0, answer

    # ---- records ---------------------------------------------------------------------------------

    def produce(self, topic: str, values: Sequence[bytes]) -> int:
        """Produce values to the first partition; return the error code."""
        [batch] = encode(list(values))
        partition = {"index": 0, "records": batch}
        data = [{"name": topic, "partition_data": [partition]}]
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": data}
        answer = self.request("Produce", 9, body)
        return int(answer["responses"][0]["partition_responses"][0]["error_code"])

    def fetch(self, topic: str, offset: int = 0) -> dict[str, Any]:
        """Return the answer to a fetch from the first partition."""
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        body = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [partition]}],
        }
        answer = self.request("Fetch", 11, body)
        found: dict[str, Any] = answer["responses"][0]["partitions"][0]
        return found

    def consume(self, topic: str) -> list[Record]:
        """Return the records of the first partition from its begin on, 1 MiB at most."""
        found = self.fetch(topic)
        assert found["error_code"] == 0
        return list(records(found["records"] or b""))


def is_served(address: str, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a new client gets an answer to ApiVersions."""
    try:
        with LoginClient(address, tls, timeout_s=10.0) as client:
            return client.request("ApiVersions", 0, {})["error_code"] == 0
    except (ConnectionClosedError, OSError):
        return False
