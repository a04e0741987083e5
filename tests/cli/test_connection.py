"""How a command reaches a broker: addresses, logins, profiles, timeouts, and what it says of it."""

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.secured_broker import SCRAM_MODULE, STORED_USERS, SecuredBroker


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker that asks for a login."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    yield broker
    broker.stop()


def settings(folder: Path, password: str) -> str:
    """Write client settings of alice; return their path."""
    file = folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="alice" password="{password}";\n'
    )
    return str(file)


def test_a_command_logs_in_with_client_settings_of_an_option_or_a_profile(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    cli = CommandLine(str(secured.address), {"XDG_CONFIG_HOME": str(tmp_path)})
    file = settings(tmp_path, STORED_USERS["alice"])

    cli("topic", "create", "orders", "--command-config", file)
    cli("profile", "create", "alice", cli.address, "--settings", file)
    listed = cli("topic", "list", "--profile", "alice")

    assert [row["topic"] for row in listed.rows] == ["orders"]


def test_a_wrong_password_is_a_denial(secured: SecuredBroker, tmp_path: Path) -> None:
    cli = CommandLine(str(secured.address), {"XDG_CONFIG_HOME": str(tmp_path)})

    ended = cli("topic", "list", "--command-config", settings(tmp_path, "wrong"), code=4)

    assert "refuses alice" in ended.err
    assert "wrong" not in ended.err
    assert ended.out == b""


def test_a_broker_that_does_not_answer_is_a_timeout(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = f"127.0.0.1:{listening.getsockname()[1]}"
        cli = CommandLine(silent, {"XDG_CONFIG_HOME": str(tmp_path)})

        ended = cli("topic", "list", "--timeout", "0.2", code=6)

    [line] = ended.err.splitlines()
    assert line.startswith(f"broker: the broker at {silent} did not answer")


def test_a_broker_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    cli = CommandLine("127.0.0.1:1", {"XDG_CONFIG_HOME": str(tmp_path)})

    ended = cli("topic", "list", "-o", "json", code=5)

    [line] = ended.err.splitlines()
    assert line.startswith("broker: no broker at 127.0.0.1:1 (")
    assert line.endswith("start one with `broker start`, or name another")
    assert ended.out == b""


def test_one_address_of_several_is_enough(cli: CommandLine) -> None:
    CommandLine(f"127.0.0.1:1,{cli.address}", cli.environment)("topic", "list")


def test_a_reader_that_has_seen_enough_is_no_error(cli: CommandLine, topic: str) -> None:
    cli("topic", "produce", topic, stdin=b"x" * 99 + b"\n" + b"line\n" * 100_000)

    with cli.start("topic", "consume", topic, "-e", "-o", "jsonl") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        code = process.wait(60)

    assert (code, said) == (0, b"")


@pytest.mark.parametrize("no_color", ["1", ""])
def test_a_terminal_gets_a_table_whose_colours_can_be_turned_off(
    cli: CommandLine, topic: str, no_color: str
) -> None:
    leader, follower = pty.openpty()
    environment = {
        **os.environ,
        **cli.environment,
        "BROKER_BOOTSTRAP_SERVER": cli.address,
        "TERM": "xterm-256color",
        "NO_COLOR": no_color,
        "COLUMNS": "200",
    }
    subprocess.run(
        [sys.executable, "-m", "broker", "topic", "list", topic],
        stdout=follower,
        check=True,
        env=environment,
        timeout=60,
    )
    text = os.read(leader, 1 << 16).decode()
    os.close(leader)
    os.close(follower)

    header, row = text.splitlines()
    assert topic in row
    assert "partitions" in header
    assert ("\x1b[1m" in header) == (not no_color)
