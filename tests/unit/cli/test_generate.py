"""`broker generate`: units, compositions, programs of clients."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.cli.banner import banner
from broker.cli.client_snippets import SNIPPETS, Access, java_settings, librdkafka_settings
from broker.cli.generate.systemd_verb import unit
from broker.model.config import load
from broker.model.listener import SecurityProtocol
from tests.support.broker_process import BrokerProcess
from tests.test_documents import run

ANALYZE = shutil.which("systemd-analyze")
EXPOSURE_MAX = 2.0
LOGINS = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="needs systemd-analyze")


def analyzed(tmp_path: Path, *arguments: str) -> str:
    """Return what systemd-analyze says of the unit of a program that exists."""
    file = tmp_path / "polylog.service"
    file.write_text(unit(Path(sys.executable), "localhost:9092"))
    assert ANALYZE is not None
    done = subprocess.run(
        [ANALYZE, *arguments, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_finds_nothing_wrong_in_the_unit(tmp_path: Path) -> None:
    assert "polylog.service" not in analyzed(tmp_path, "verify")


@needs_systemd
def test_the_unit_is_hardly_exposed(tmp_path: Path) -> None:
    said = analyzed(tmp_path, "security", "--offline=true", "--no-pager")

    [exposure] = re.findall(r"Overall exposure level for polylog.service: ([\d.]+)", said)
    assert float(exposure) <= EXPOSURE_MAX


def test_the_unit_sees_a_program_that_is_in_a_home_directory() -> None:
    assert "ProtectHome=yes\n" in unit(Path("/opt/polylog/bin/broker"), "localhost:9092")
    assert "ProtectHome=read-only\n" in unit(Path("/home/ada/bin/broker"), "localhost:9092")


def test_the_unit_does_not_restart_what_a_restart_cannot_mend() -> None:
    from broker.cli.exit_codes import Exit  # noqa: PLC0415 - the numbers of the table

    text = unit(Path("/usr/bin/broker"), "localhost:9092")

    assert f"RestartPreventExitStatus={Exit.USAGE} {Exit.DATA_DIR}\n" in text


@pytest.mark.client
def test_the_program_for_python_consumes_what_it_produces(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()

    shown = run(SNIPPETS["python"](Access(broker.address)), tmp_path)

    assert shown == "b'hello'\n"


@pytest.mark.client
@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat")
def test_the_commands_for_a_shell_consume_what_they_produce(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    commands = SNIPPETS["shell"](Access(start_broker().address))

    said = subprocess.run(["/bin/sh", "-c", commands], capture_output=True, text=True, check=True)

    assert said.stdout == "hello\n"


@pytest.mark.parametrize("protocol", [each.name for each in SecurityProtocol])
@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("language", SNIPPETS)
def test_each_program_has_the_settings_of_the_listener(
    language: str, protocol: str, mechanism: str
) -> None:
    has_login = protocol.startswith("SASL_")
    access = Access("broker.example:9093", protocol, mechanism if has_login else "", "orders")
    settings = (java_settings if language in {"java", "properties"} else librdkafka_settings)(
        access
    )

    text = SNIPPETS[language](access).replace('\\"', '"')

    assert access.address in text
    assert ("SASL_" in text) == has_login
    assert ("ca.pem" in text) == protocol.endswith("SSL")
    assert [name for name, value in settings.items() if name not in text or value not in text] == []


def test_the_banner_has_the_settings_of_the_generated_program(tmp_path: Path) -> None:
    config = load([f"log.dirs={tmp_path}", "listeners=SASL_PLAINTEXT://127.0.0.1:9093"])
    [listener] = config.listeners

    text = banner([listener], config)

    settings = librdkafka_settings(Access("127.0.0.1:9093", "SASL_PLAINTEXT", "SCRAM-SHA-512"))
    assert [name for name, value in settings.items() if f'"{name}": "{value}"' not in text] == []
