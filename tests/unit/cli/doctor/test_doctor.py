"""`broker doctor` finds the faults that are planted here, and says what to do."""

import errno
import json
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.cli import main
from broker.cli.doctor import directory, machine
from broker.cli.doctor.directory import _synced_ms as synced_ms
from broker.cli.exit_codes import Exit
from broker.model.clock import SystemClock
from broker.model.clock_guard import ClockState, Reading
from broker.model.errors import StorageError
from broker.model.limits import CLOCK_STEP_MS
from broker.storage.checkpoints import clock_checkpoint
from broker.storage.log_dir import LogDir
from tests.support.ports import free_port

Rows = list[dict[str, Any]]
Doctor = Callable[..., Rows]
HOUR_MS = 3_600_000


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Run the command without brokers, and return the rows of one check."""

    def run(check: str, *options: str, code: Exit = Exit.UNHEALTHY) -> Rows:
        assert main(["doctor", "--offline", "-o", "json", *options]) == code
        rows: Rows = json.loads(capsys.readouterr().out)
        assert all(each["fix"] for each in rows if each["severity"] != "ok")
        return [each for each in rows if each["check"] == check]

    return run


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on how busy the disk is."""
    monkeypatch.setattr(directory, "_synced_ms", lambda *_: 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory that a broker has used."""
    LogDir(tmp_path / "data", 1).close()
    return tmp_path / "data"


def config_of(folder: Path, *lines: str) -> str:
    file = folder / "server.properties"
    file.write_text("\n".join((f"log.dirs={folder}/data", *lines)) + "\n")
    file.chmod(0o600)
    return str(file)


def test_nothing_is_wrong_with_a_sound_machine(doctor: Doctor, folder: Path) -> None:
    port = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    file = config_of(folder.parent, "node.id=1", port)

    for check in ("versions", "config", "port", "permissions", "directory", "fsync"):
        [row] = doctor(check, "--config", file, code=Exit.OK)
        assert row["severity"] == "ok", row


@pytest.mark.parametrize(
    ("hard", "severity"),
    [(100, "problem"), (4096, "warning"), (65_536, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_a_low_limit_of_open_files_is_found(
    monkeypatch: pytest.MonkeyPatch, hard: int, severity: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))

    [row] = [each for each in machine.machine_checks() if each.check == "descriptors"]

    assert row.severity == severity


def test_a_setting_that_does_not_exist_is_found(doctor: Doctor, tmp_path: Path) -> None:
    [row] = doctor("config", "--config", config_of(tmp_path, "log.retentoin.ms=1"))

    assert row["severity"] == "problem"
    assert row["subject"].endswith("server.properties:2")
    assert "log.retention.ms" in row["reason"]


def test_a_file_that_does_not_exist_is_found(doctor: Doctor, tmp_path: Path) -> None:
    [row] = doctor("config", "--config", str(tmp_path / "none.toml"))

    assert "there is no such file" in row["reason"]


@pytest.fixture
def secured(tmp_path: Path) -> Callable[[int], str]:
    """Make a configuration with TLS whose certificate is valid for some days."""

    def made(days: int) -> str:
        certs = str(tmp_path / "certs")
        assert main(["cert", "ca", certs]) == Exit.OK
        words = ["cert", "server", certs, "--host", "localhost", "--days", str(days)]
        assert main(words) == Exit.OK
        return config_of(
            tmp_path,
            f"listeners=SSL://127.0.0.1:{free_port()}",
            f"ssl.keystore.location={certs}/server.pem",
            f"ssl.truststore.location={certs}/ca.pem",
        )

    return made


@pytest.mark.parametrize(("days", "severity"), [(2, "problem"), (10, "warning"), (300, "ok")])
def test_a_certificate_that_expires_soon_is_found(
    doctor: Doctor,
    secured: Callable[[int], str],
    capsys: pytest.CaptureFixture[str],
    days: int,
    severity: str,
) -> None:
    file = secured(days)
    capsys.readouterr()

    code = Exit.UNHEALTHY if severity == "problem" else Exit.OK
    [row] = doctor("certificate", "--config", file, code=code)

    assert row["severity"] == severity
    assert "CN=server" in row["reason"]


def test_a_key_that_others_may_read_is_found(
    doctor: Doctor, secured: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = secured(300)
    (Path(file).parent / "certs/server.pem").chmod(0o644)
    capsys.readouterr()

    [row] = doctor("keys", "--config", file)

    assert row["severity"] == "problem"
    assert "chmod 600" in row["reason"]


def test_a_port_that_another_program_uses_is_found(doctor: Doctor, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        taken.settimeout(0.01)
        port = taken.getsockname()[1]
        file = config_of(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}")
        directory_of_pages = "broker.cli.doctor.configuration.page"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(directory_of_pages, refused)
            [row] = doctor("port", "--config", file)

    assert row["severity"] == "problem"
    assert "ss -ltnp" in row["fix"]


def refused(*_: object) -> None:
    """Answer as a program that does not speak HTTP."""
    from broker.model.errors import Unreachable  # noqa: PLC0415 - of this answer only

    raise Unreachable("not HTTP")


def test_an_advertised_name_that_is_not_known_is_found(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    file = config_of(
        tmp_path,
        f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
        "advertised.listeners=PLAINTEXT://no-such-host.invalid:9092",
    )

    [row] = doctor("advertised", "--config", file)

    assert (row["severity"], row["subject"]) == ("problem", "no-such-host.invalid:9092")


@pytest.mark.parametrize(
    ("mode", "severity"), [(0o700, "ok"), (0o755, "warning"), (0o777, "problem")]
)
def test_a_directory_that_others_may_read_or_change_is_found(
    doctor: Doctor, folder: Path, mode: int, severity: str
) -> None:
    folder.chmod(mode)

    code = Exit.UNHEALTHY if severity == "problem" else Exit.OK
    [row] = doctor("permissions", "--data-dir", str(folder), code=code)

    assert row["severity"] == severity


def test_a_directory_of_another_node_is_found(doctor: Doctor, folder: Path) -> None:
    port = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"

    [row] = doctor("directory", "--config", config_of(folder.parent, "node.id=2", port))

    assert (row["severity"], row["fix"][:10]) == ("problem", "set node.i")


def test_a_directory_of_apache_kafka_is_found(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()

    [row] = doctor("directory", "--data-dir", str(tmp_path))

    assert "Apache Kafka" in row["reason"]


def test_a_file_in_the_place_of_a_directory_is_found(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    [row] = doctor("directory", "--data-dir", str(tmp_path / "file/data"))

    assert "is a file" in row["reason"]


def test_a_directory_that_is_in_use_is_said_to_be(doctor: Doctor, folder: Path) -> None:
    holder = LogDir(folder, 1)
    try:
        [row] = doctor("directory", "--data-dir", str(folder), code=Exit.OK)
    finally:
        holder.close()

    assert f"a broker uses it: pid {os.getpid()}" in row["reason"]


@pytest.mark.parametrize(("free", "severity"), [(2, "problem"), (10, "warning"), (50, "ok")])
def test_a_disk_that_is_nearly_full_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, severity: str
) -> None:
    real = os.statvfs(tmp_path)
    faked = [*real]
    faked[2], faked[4] = 100, free  # f_blocks, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(faked))

    rows = directory.directory_checks(tmp_path, None, 0)

    assert [each.severity for each in rows if each.check == "disk"] == [severity]


@pytest.mark.parametrize(("ms", "severity"), [(500.0, "problem"), (50.0, "warning"), (1.0, "ok")])
def test_a_slow_disk_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ms: float, severity: str
) -> None:
    monkeypatch.setattr(directory, "_synced_ms", lambda *_: ms)

    rows = directory.directory_checks(tmp_path, None, 0)

    assert [each.severity for each in rows if each.check == "fsync"] == [severity]
    assert not list(tmp_path.iterdir())


def test_the_time_until_a_write_is_on_the_disk_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert synced_ms(tmp_path / "file", 0) > 0
    assert (tmp_path / "file").stat().st_size == 4096


def test_a_disk_that_fails_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> float:
        raise StorageError(os.strerror(errno.EIO))

    monkeypatch.setattr(directory, "_synced_ms", fails)

    [row] = [each for each in directory.directory_checks(tmp_path, None, 0) if each[0] == "fsync"]

    assert row.severity == "problem"
    assert "cannot be written" in row.reason
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("stepped_ms", "severity"), [(0, "ok"), (-HOUR_MS, "problem")])
def test_a_clock_that_was_set_is_found(
    doctor: Doctor, folder: Path, stepped_ms: int, severity: str
) -> None:
    clock = SystemClock()
    line = Reading(clock.wall_ms() - stepped_ms, clock.boot_ms())
    clock_checkpoint.write(
        folder, ClockState(clock_checkpoint.boot_id(), line, CLOCK_STEP_MS, False, 0)
    )

    code = Exit.UNHEALTHY if severity == "problem" else Exit.OK
    [row] = doctor("clock", "--data-dir", str(folder), code=code)

    assert row["severity"] == severity
