"""`broker cert`: what it makes is trusted, private, and never replaced."""

import ssl
import stat
from pathlib import Path

import pytest

from broker.cli import main
from broker.cli.exit_codes import Exit
from broker.core.tls.contexts import secured
from broker.model.config import load


def made(*arguments: str) -> int:
    return main(["cert", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with an authority, a broker's key store and a client's."""
    directory = str(tmp_path / "certs")
    assert made("ca", directory) == 0
    assert made("server", directory, "--host", "localhost", "--host", "127.0.0.1") == 0
    assert made("client", directory, "--name", "alice") == 0
    return tmp_path / "certs"


def test_a_broker_and_its_clients_trust_each_other(folder: Path) -> None:
    config = load(
        [
            "listeners=SSL://127.0.0.1:1",
            f"ssl.keystore.location={folder}/server.pem",
            f"ssl.truststore.location={folder}/ca.pem",
        ]
    )
    settings = config.of_listener(config.listeners[0])
    server = secured(settings, "required", "here", is_of_brokers=True)
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    client.load_cert_chain(folder / "alice.pem")
    assert server.to_brokers is not None

    for each in (client, server.to_brokers):
        at_server, at_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            each.wrap_bio(at_client, at_server, server_hostname="127.0.0.1"),
            server.of_clients.wrap_bio(at_server, at_client, server_side=True),
        ]
        for _ in range(3):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        assert ends[1].getpeercert(binary_form=True) is not None
    assert server.certificate.subject == "CN=server"


def test_only_the_owner_may_read_the_files(folder: Path) -> None:
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}

    assert modes == dict.fromkeys(("ca.pem", "ca-key.pem", "server.pem", "alice.pem"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_files_that_exist_stay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {each.name: each.read_bytes() for each in folder.iterdir()}

    assert made("ca", str(folder)) == Exit.CONFLICT
    assert made("client", str(folder), "--name", "alice") == Exit.CONFLICT

    assert "exists, and is not replaced" in capsys.readouterr().err
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("client", "--name", "../evil"), "--name"),
        (("client", "--name", "x" * 65), "--name"),
        (("server", "--host", "héllo"), "--host"),
        (("client", "--name", "bob", "--days", "0"), "--days"),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_reason(
    folder: Path, arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *options = arguments

    assert made(command, str(folder), *options) == 2
    assert reason in capsys.readouterr().err


def test_without_an_authority_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made("client", str(tmp_path), "--name", "alice") == 2
    assert "broker cert ca" in capsys.readouterr().err
    (tmp_path / "ca-key.pem").write_text("damaged")
    (tmp_path / "ca.pem").write_text("damaged")
    assert made("client", str(tmp_path), "--name", "alice") == 2
    assert "damaged" in capsys.readouterr().err
