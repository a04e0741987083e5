"""Measures logins by SCRAM: `make bench SUITE=tls` prints them last.

connection       CPU of the broker per connection that asks ApiVersions, and does not log in
SCRAM-SHA-256    the same with a login, and how many of them a core does per second; beside the
SCRAM-SHA-512    hashes that the server's side of RFC 5802 needs (two HMACs and a digest) and
PBKDF2 of 4,096 iterations, which only clients compute
"""

import hashlib
import hmac
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.end_to_end import machine
from tests.support.login_client import SCRAM_HASHES, SCRAM_ITERATIONS, LoginClient
from tests.support.secured_broker import STORED_USERS, SecuredBroker

LOGINS = 200
HASHES = 2_000
MESSAGE = bytes(200)  # as long as what both sides sign


def main(rounds: int) -> None:
    """Measure and print; there is no goal."""
    with tempfile.TemporaryDirectory() as folder:
        broker = SecuredBroker(Path(folder))
        broker.start()
        try:
            kinds = ("", *SCRAM_HASHES)
            _per_login(broker, "SCRAM-SHA-256")
            spent = {kind: [_per_login(broker, kind) for _ in range(rounds)] for kind in kinds}
        finally:
            broker.stop()
    print(f"{'':14} {'broker':>9} {'logins/s':>9} {'hashes':>9} {'PBKDF2':>9}")
    print(f"{'connection':14} {median(spent['']) * 1e6:6.0f} us")
    for kind, digest in SCRAM_HASHES.items():
        each = median(spent[kind])
        print(
            f"{kind:14} {each * 1e6:6.0f} us {1 / each:9.0f} {_server_hashes(digest) * 1e6:6.1f} us"
            f" {_pbkdf2(digest) * 1e6:6.0f} us"
        )


def _per_login(broker: SecuredBroker, mechanism: str) -> float:
    """Return the CPU seconds of the broker per connection; an empty mechanism: without a login."""
    pid = broker.process.pid
    before = machine.loop_seconds(pid)
    for _ in range(LOGINS):
        with LoginClient(broker.address) as client:
            client.request("ApiVersions", 0, {})
            if mechanism:
                client.log_in("alice", STORED_USERS["alice"], mechanism)
    return (machine.loop_seconds(pid) - before) / LOGINS


def _server_hashes(digest: str) -> float:
    key = hashlib.new(digest).digest()

    def check() -> None:
        hmac.digest(key, MESSAGE, digest)
        hashlib.new(digest, key).digest()
        hmac.digest(key, MESSAGE, digest)

    return _seconds(check, HASHES)


def _pbkdf2(digest: str) -> float:
    return _seconds(lambda: hashlib.pbkdf2_hmac(digest, b"secret", b"salt", SCRAM_ITERATIONS), 20)


def _seconds(call: Callable[[], object], times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begun) / times
