"""No secret leaves a broker: canaries in every place that has one, every failure, one search.

Each secret of the configuration and of the users contains a word that is nowhere else. What the
broker prints, logs, answers and stores is searched for these words, also in base64 and in
hexadecimal digits.
"""

import base64
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker.model.settings import BROKER_SETTINGS, Kind
from broker.protocols.http.table import PAGES
from tests.support.broker_process import held_port
from tests.support.certificates import Authority
from tests.support.configured_broker import (
    AUTHORIZER,
    PLAIN_MODULE,
    ConfiguredBroker,
    joined,
    write_settings,
)
from tests.support.login_client import LoginClient, LoginFailedError
from tests.support.wire_client import ConnectionClosedError, WireClient

USERS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
LISTENERS = ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"]
SENSITIVE = sorted(row.name for row in BROKER_SETTINGS.values() if row.kind is Kind.PASSWORD)
BROKER_RESOURCE = 4
REFUSED = (LoginFailedError, ConnectionClosedError, OSError)


class Canaries:
    """Words that nobody but the broker must get to see."""

    def __init__(self) -> None:
        """Have none yet."""
        self.words: list[str] = []

    def word(self) -> str:
        """Return a new one."""
        self.words.append(f"canary{os.urandom(6).hex()}")
        return self.words[-1]

    def found_in(self, output: bytes) -> list[str]:
        """Return those that an output has, in any of three forms."""
        return [word for word in self.words if any(form in output for form in _forms(word))]


def _forms(word: str) -> Iterator[bytes]:
    """Return a word as it is, in hexadecimal digits, and in base64 at each of three places."""
    plain = word.encode()
    yield plain
    yield plain.hex().encode()
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + plain)
        yield coded[4 if before else 0 : -4]


class Running(NamedTuple):
    """A broker with canaries, and what it has answered."""

    broker: ConfiguredBroker
    canaries: Canaries
    settings: Mapping[str, str]
    authority: Authority
    answers: list[bytes]


def encrypted_key(key: Path, password: str) -> str:
    """Return a private key as PEM, encrypted with a password."""
    command = ["openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", str(key)]
    command += ["-passout", f"pass:{password}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def secret_settings(canaries: Canaries, authority: Authority) -> dict[str, str]:
    """Return settings that have a secret in each place that may have one."""
    made = authority.issue("server")
    key_password = canaries.word()
    key = encrypted_key(made.key, key_password)
    canaries.words.append(key.splitlines()[2])  # a line of the key
    canaries.words.append(made.key.read_text().splitlines()[1])  # one of what is encrypted
    users = f'user_admin="{canaries.word()}" user_alice="{canaries.word()}"'
    own = f'username="broker" password="{canaries.word()}"'
    return {
        "ssl.keystore.key": f"{canaries.word()}\n{key}",
        "ssl.keystore.certificate.chain": f"{canaries.word()}\n{made.certificate.read_text()}",
        "ssl.truststore.certificates": canaries.word()
        + "\n"
        + authority.own.certificate.read_text(),
        "ssl.key.password": key_password,
        "ssl.keystore.password": canaries.word(),
        "ssl.truststore.password": canaries.word(),
        "delegation.token.secret.key": canaries.word(),
        "polylog.otlp.headers": f"x-token={canaries.word()}",
        "sasl.jaas.config": f"{PLAIN_MODULE} required {own};",
        USERS: f"{PLAIN_MODULE} required {own} {users};",
    }


@pytest.fixture(params=["text", "json"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """Start a broker that logs all it can, with canaries in every sensitive setting."""
    canaries, authority = Canaries(), Authority(tmp_path)
    settings = secret_settings(canaries, authority)
    audit_key = tmp_path / "audit.key"
    audit_key.touch(0o600)
    audit_key.write_text(canaries.word())
    more = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
        "polylog.log.level": "debug",
        "polylog.log.format": request.param,
        "polylog.audit.events": "login,denial,administration,access,question",
        "polylog.audit.key.file": str(audit_key),
        "connection.failed.authentication.delay.ms": "0",
        "polylog.otlp.endpoint": "http://127.0.0.1:1/v1/metrics",
        "polylog.otlp.interval.ms": "1000",
    }
    broker = ConfiguredBroker(tmp_path, LISTENERS, settings | more)
    broker.start()
    yield Running(broker, canaries, settings, authority, [])
    broker.stop()


def password(running: Running, user: str) -> str:
    """Return the password that a user has in the configuration."""
    return running.settings[USERS].partition(f'user_{user}="')[2].partition('"')[0]


def test_the_settings_of_this_test_are_all_that_have_secrets(tmp_path: Path) -> None:
    given = secret_settings(Canaries(), Authority(tmp_path))

    assert sorted(given.keys() - {USERS}) == SENSITIVE


def test_a_canary_in_an_output_is_found() -> None:
    canaries = Canaries()
    word = canaries.word()

    for output in (word, word.encode().hex(), base64.b64encode(f"ab{word}c".encode()).decode()):
        assert canaries.found_in(f"error: {output}.".encode()) == [word]
    assert canaries.found_in(b"nothing to see") == []


def test_no_secret_of_a_running_broker_is_printed_logged_answered_or_stored(
    running: Running, choices: Random, tmp_path: Path
) -> None:
    broker, canaries = running.broker, running.canaries

    describe_and_alter_configs(running)
    log_in_wrongly(running, choices)
    alter_users(running)
    make_tokens(running)
    speak_other_protocols(running)
    shake_hands_wrongly(running)
    bundled = [bundle(running, tmp_path / "running.tgz", "--log", str(broker.error_log))]
    broker.stop()
    bundled.append(bundle(running, tmp_path / "stopped.tgz", "--offline"))

    assert len(running.answers) > 20
    for parts in bundled:
        assert b"sasl.jaas.config" in parts["config.json"]
        assert [name for name, part in parts.items() if canaries.found_in(part)] == []
    assert not canaries.found_in(b"\n".join(running.answers))
    assert not canaries.found_in((broker.stdout() + broker.stderr()).encode())
    stored = [file for file in broker.data_dir.rglob("*") if file.is_file()]
    assert stored
    assert [file.name for file in stored if canaries.found_in(file.read_bytes())] == []


def bundle(running: Running, file: Path, *options: str) -> dict[str, bytes]:
    """Collect what helps whoever is asked for help; return the parts of the bundle by name."""
    broker = running.broker
    places = ["--config", str(broker.file), "--data-dir", str(broker.data_dir), "--file", str(file)]
    address = ["--bootstrap-server", broker.of_listener["PLAINTEXT"]]
    command = [sys.executable, "-m", "broker", "debug", "bundle", *places, *address, *options]
    subprocess.run(command, check=True, capture_output=True)
    with tarfile.open(file) as archive:
        members = {each.name.partition("/")[2]: archive.extractfile(each) for each in archive}
        return {name: found.read() for name, found in members.items() if found is not None}


def answered(running: Running, client: WireClient) -> None:
    """Keep the next answer, or that there is none."""
    with suppress(*REFUSED):
        running.answers.append(client.receive_frame())


def describe_and_alter_configs(running: Running) -> None:
    """Ask for all settings, and try to alter each that is secret, in every way."""
    address = running.broker.of_listener["PLAINTEXT"]
    names = [*SENSITIVE, *(f"listener.name.ssl.{name}" for name in SENSITIVE), USERS]
    with WireClient(address) as client:
        for broker_name in ("1", ""):
            resource = {"resource_type": BROKER_RESOURCE, "resource_name": broker_name}
            body = {
                "resources": [{**resource, "configuration_keys": None}],
                "include_synonyms": True,
                "include_documentation": True,
            }
            client.send("DescribeConfigs", 4, body)
            answered(running, client)
            for name in names:
                word = running.canaries.word()
                changed = {"name": name, "config_operation": 0, "value": word}
                body = {"resources": [{**resource, "configs": [changed]}], "validate_only": False}
                client.send("IncrementalAlterConfigs", 1, body)
                answered(running, client)
                changed = {"name": name, "value": word}
                body = {"resources": [{**resource, "configs": [changed]}], "validate_only": False}
                client.send("AlterConfigs", 2, body)
                answered(running, client)
        topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": []}
        wrong = [{"name": "ssl.key.password", "value": running.canaries.word()}]
        client.send("CreateTopics", 7, {"topics": [topic | {"configs": wrong}], "timeout_ms": 9000})
        answered(running, client)


def log_in_wrongly(running: Running, choices: Random) -> None:
    """Send passwords in every wrong place, and right ones that do not help."""
    address = running.broker.of_listener["SASL_PLAINTEXT"]
    word = running.canaries.word
    right = password(running, "alice")
    messages = [
        f"\0alice\0{word()}",
        f"\0nobody\0{word()}",
        f"admin\0alice\0{right}",
        f"\0alice\0{right}\0{word()}",
        f"{word()}",
        f"\0\0{word()}",
        f"n,,n=alice,r=nonce,p={word()}",
        f"c=biws,r=nonce,p={word()}",
        f"n,,\x01auth=Bearer {word()}\x01\x01",
    ]
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        for message in messages:
            with LoginClient(address) as client:
                with suppress(*REFUSED):
                    client.choose(mechanism)
                    client.send("SaslAuthenticate", 2, {"auth_bytes": message.encode()})
                answered(running, client)
    with LoginClient(address) as client:  # bytes in place of requests
        client.send_bytes(choices.randbytes(40) + word().encode())
        answered(running, client)
    with LoginClient(address) as client:
        client.log_in("alice", right)
        client.send("SaslAuthenticate", 2, {"auth_bytes": f"\0alice\0{word()}".encode()})
        answered(running, client)


def alter_users(running: Running) -> None:
    """Create users, and try what is refused; nothing answers or stores a password's salted form."""
    salted = running.canaries.word().encode().ljust(32, b".")
    upserted = {"name": "carol", "mechanism": 1, "salt": b"salt", "salted_password": salted}
    with WireClient(running.broker.of_listener["PLAINTEXT"]) as client:
        for iterations in (4096, 5):
            row = upserted | {"iterations": iterations}
            client.send("AlterUserScramCredentials", 0, {"deletions": [], "upsertions": [row]})
            answered(running, client)
        client.send("DescribeUserScramCredentials", 0, {"users": None})
        answered(running, client)


def make_tokens(running: Running) -> None:
    """Make a delegation token: its owner gets its HMAC, and nobody else has it."""
    address = running.broker.of_listener["SASL_PLAINTEXT"]
    with LoginClient(address) as client:
        client.log_in("alice", password(running, "alice"))
        body = {"renewers": [], "max_lifetime_ms": -1}
        made = client.request("CreateDelegationToken", 2, body)
        assert made["error_code"] == 0
    secret = base64.b64encode(made["hmac"]).decode()
    running.canaries.words += [secret, bytes(made["hmac"]).hex()]
    for name in (made["token_id"], "another"):
        with LoginClient(address) as client, suppress(*REFUSED):
            client.choose("SCRAM-SHA-256")
            message = f"n,,n={name},r={secret},tokenauth=true"
            client.send("SaslAuthenticate", 2, {"auth_bytes": message.encode()})
            client.receive_frame()  # it has the client's nonce, as it must


def speak_other_protocols(running: Running) -> None:
    """Send passwords over the other protocols, some of which repeat a line that they do not know.

    That is told to its sender only, so an answer may have what was sent.
    """
    word = running.canaries.word
    lines = [
        f"V1|1|AUTH|{word()}\n".encode(),
        f"GET /?password={word()} HTTP/1.1\r\nAuthorization: Basic {word()}\r\n\r\n".encode(),
        *(f"GET {path} HTTP/1.1\r\n\r\n".encode() for path in (*PAGES, "/metrics")),
    ]
    texts = [f"AUTH user=admin password={word()}", f"LOGIN {word()}"]
    frames = [len(text).to_bytes(4, "big") + text.encode() for text in texts]
    for listener in ("PLAINTEXT", "SASL_PLAINTEXT"):
        for data in (*lines, *frames):
            with WireClient(running.broker.of_listener[listener], 5.0) as client:
                client.send_bytes(data)
                client.socket.shutdown(socket.SHUT_WR)
                with suppress(*REFUSED):
                    answer = client.socket.recv(1 << 20)
                    for each in running.canaries.found_in(data):
                        answer = answer.replace(each.encode(), b"")
                    running.answers.append(answer)


def shake_hands_wrongly(running: Running) -> None:
    """Send a password where TLS is spoken."""
    with WireClient(running.broker.of_listener["SSL"], 5.0) as client:
        client.send_bytes(running.canaries.word().encode())
        answered(running, client)
    with LoginClient(
        running.broker.of_listener["SSL"], running.authority.client_context()
    ) as client:
        client.send("ApiVersions", 3, {"client_software_name": "test"})
        answered(running, client)


# ---- starts that fail ------------------------------------------------------------------

JAAS_FAULTS = {
    "no semicolon": '{module} required user_alice="{word}"',
    "a quote too few": '{module} required user_alice="{word};',
    "another module": 'com.sun.security.auth.module.JndiLoginModule required a="{word}";',
    "no module": '="{word}"',
}


@pytest.mark.parametrize("case", JAAS_FAULTS)
@pytest.mark.parametrize("option", [[], ["--check"]])
def test_a_wrong_jaas_line_is_refused_without_its_passwords(
    tmp_path: Path, case: str, option: list[str]
) -> None:
    canaries = Canaries()
    line = JAAS_FAULTS[case].format(module=PLAIN_MODULE, word=canaries.word())
    settings = {"sasl.enabled.mechanisms": "PLAIN", USERS: line}

    output = output_of_start(tmp_path, settings, *option, may_succeed=bool(option))

    assert not canaries.found_in(output)


KEY_FAULTS = ["wrong password", "no password", "no key", "garbage", "another key", "no certificate"]


@pytest.mark.parametrize("case", KEY_FAULTS)
def test_a_key_that_cannot_be_used_is_not_shown(tmp_path: Path, case: str) -> None:
    canaries, authority = Canaries(), Authority(tmp_path)
    settings = secret_settings(canaries, authority)
    del settings[USERS]
    match case:
        case "wrong password":
            settings["ssl.key.password"] = canaries.word()
        case "no password":
            del settings["ssl.key.password"]
        case "no key":
            settings["ssl.keystore.key"] = canaries.word()
        case "garbage":
            settings["ssl.keystore.key"] = settings["ssl.keystore.key"].replace("A", "B")
        case "another key":
            settings["ssl.keystore.key"] = authority.issue("other").key.read_text()
        case _:
            settings["ssl.keystore.certificate.chain"] = canaries.word()

    output = output_of_start(tmp_path, settings, listeners="SSL://127.0.0.1:0")

    assert not canaries.found_in(output)


def test_a_password_on_the_command_line_or_in_a_file_of_all_is_complained_of(
    tmp_path: Path,
) -> None:
    canaries = Canaries()
    given = f"ssl.key.password={canaries.word()}"
    (holder, port), file = held_port(), tmp_path / "broker.toml"
    command = [sys.executable, "-m", "broker", "start", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(
        [*command, "--listen", f"127.0.0.1:{port}", "--set", given],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as started:
        assert started.stdout is not None
        output = started.stdout.readline()
        started.terminate()
        output += started.stdout.read()
    os.close(holder)
    assert b"every user of this host can read a password of the command line" in output
    assert not canaries.found_in(output)

    write_settings(file, {"ssl.key.password": canaries.word()})
    file.chmod(0o644)
    refused = subprocess.run(
        [*command, "--config", str(file)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert f"run `chmod 600 {file}`" in refused.stderr
    assert not canaries.found_in((refused.stdout + refused.stderr).encode())


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "ssl.key.password {}"],
        ["--set", "ssl.key.pasword={}"],
        ["ssl.key.password={}"],
        ["--password={}"],
        ["--set", "listener.name.absent.ssl.key.password={}"],
    ],
)
def test_a_mistaken_command_line_does_not_repeat_a_password(
    tmp_path: Path, words: list[str]
) -> None:
    canaries = Canaries()
    command = [sys.executable, "-m", "broker", "start", "--data-dir", str(tmp_path / "data")]
    command += [word.format(canaries.word()) if "{}" in word else word for word in words]

    done = subprocess.run(command, capture_output=True, check=False)

    assert done.returncode == 2
    assert done.stderr
    assert not canaries.found_in(done.stdout + done.stderr)


def output_of_start(
    folder: Path,
    settings: Mapping[str, str],
    *options: str,
    listeners: str = "SASL_PLAINTEXT://127.0.0.1:0",
    may_succeed: bool = False,
) -> bytes:
    """Return what a start prints that must fail."""
    file = folder / "broker.toml"
    common = {"listeners": listeners, "log.dirs": str(folder / "data")}
    write_settings(file, {**common, "polylog.log.level": "debug", **settings})
    command = [sys.executable, "-m", "broker", "start", "--config", str(file), *options]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert may_succeed or done.returncode != 0
    assert done.stdout + done.stderr
    return done.stdout + done.stderr


# ---- the process ------------------------------------------------------------------


def test_a_broker_with_secrets_leaves_no_core_file_and_its_files_are_its_owners(
    running: Running,
) -> None:
    process = Path(f"/proc/{running.broker.process.pid}")
    limits = (process / "limits").read_text()

    [core] = [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core")]
    assert set(core) <= {"0", "1"}
    assert "Umask:\t0077" in (process / "status").read_text()
    files = [running.broker.data_dir, *running.broker.data_dir.rglob("*")]
    assert [str(file) for file in files if file.stat().st_mode & 0o077] == []


def test_a_key_store_that_others_can_read_ends_the_start(tmp_path: Path) -> None:
    store = joined(Authority(tmp_path).issue("server"), tmp_path / "server.pem")
    store.chmod(0o640)
    owner = store.stat()
    os.chown(store, owner.st_uid or 65_534, owner.st_gid)

    output = output_of_start(
        tmp_path, {"ssl.keystore.location": str(store)}, listeners="SSL://127.0.0.1:0"
    )

    assert b"run `ch" in output
