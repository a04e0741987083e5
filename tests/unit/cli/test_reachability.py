"""Commands that need a running broker, without one."""

import socket
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker import pipeline
from broker.cli import main
from broker.cli.exit_codes import Exit
from broker.cli.tree import verbs
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.model.address import parse_addresses
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError, PeerError, Unreachable
from tests.support.scripted_broker import scripted_broker

TIMEOUT_S = 5.0


def commands(folder: Path) -> dict[str, list[str]]:
    """Every command that takes --broker, as it would run."""
    (folder / "offsets.json").write_text("{}")
    (folder / "orders-0-segment-000000.log").write_text("")
    (folder / "__topic_metadata.json").write_text('{"version": 1, "topics": []}')
    (folder / "00000000000000000000.log").touch()
    data = str(folder)
    return {
        "import cursus": ["import", "cursus", data],
        "import rustlog": ["import", "rustlog", data],
        "import v1": ["import", "v1", data],
        "snapshot create": ["snapshot", "create", str(folder / "new"), "--data-dir", data],
        "pipeline archive": ["pipeline", "archive", "orders", data],
        "pipeline replay": ["pipeline", "replay", data, "orders"],
        "pipeline dedupe": ["pipeline", "dedupe", "orders", "once", "--checkpoint", data],
        "pipeline lag": ["pipeline", "lag"],
    }


COMMANDS = [
    name
    for name, verb in verbs()
    if any("--broker" in each.opts for each in verb.params if each.name == "bootstrap_server")
]


def reached(bootstrap: str) -> None:
    """Return once a broker has answered at one of the addresses."""
    pool = Pool(SystemClock())
    try:
        Cluster(parse_addresses(bootstrap), answer_seconds=TIMEOUT_S, pool=pool).check_reachable()
    finally:
        pool.close()


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing begin that takes longer than the check of the broker."""

    def begun(*_: Any, **__: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(import_module("broker.pipeline.session"), "session", begun)
    monkeypatch.setattr(Cluster, "metadata", begun)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_broker_exits_5_and_names_address_and_remedy(
    command: str, nobody: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*commands(tmp_path)[command], "--broker", nobody]) == Exit.UNREACHABLE

    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"broker: no broker at {nobody} (")
    assert said.endswith("start one with `broker start`, or name another")


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_gives_up_before_it_begins_if_the_broker_does_not_answer(
    command: str, silent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*commands(tmp_path)[command], "--broker", silent, "--timeout", "0.1"]

    assert main(words) == Exit.TIMED_OUT

    assert silent in capsys.readouterr().err


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs have a session that can do nothing."""
    monkeypatch.setattr(pipeline, "session", lambda *_, **__: SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(pipeline, "register", lambda _: None)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("command", "api"),
    [
        ("import v1", "CreateTopics"),
        ("snapshot create", "Metadata"),
        ("pipeline archive", "Metadata"),
        ("pipeline dedupe", "Metadata"),
        ("pipeline lag", "Metadata"),
    ],
)
def test_a_command_waits_for_each_answer_as_long_as_it_is_told(
    command: str, api: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_over = threading.Event()

    def answer(_api: str, _version: int, _body: Any) -> None:
        is_over.wait(TIMEOUT_S)

    with scripted_broker(answer) as broker:
        address = str(broker.address)
        code = main([*commands(tmp_path)[command], "-b", address, "--timeout", "0.1"])
        is_over.set()

    assert code == Exit.TIMED_OUT
    assert f"{address} did not answer {api} (timed out)" in capsys.readouterr().err


def test_one_broker_of_several_is_enough(nobody: str) -> None:
    def answer(_api: str, _version: int, _body: Any) -> dict[str, Any]:
        raise AssertionError("only ApiVersions is requested")

    with scripted_broker(answer) as broker:
        reached(f"{nobody},{broker.address}")


def test_an_unknown_host_and_an_impossible_host_name_are_unreachable() -> None:
    for host in ("no-such-host.invalid", "a" * 70):
        with pytest.raises(Unreachable, match=f"no broker at {host}:9092 "):
            reached(f"{host}:9092")


def test_a_peer_that_is_not_a_broker_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 10)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(PeerError, match=f"{address} .*check that a Kafka broker listens there"):
            reached(address)
        server.join()


def test_an_invalid_address_is_a_usage_error() -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        reached("nowhere")


def test_a_plot_without_its_dependencies_is_refused_before_the_work_naming_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it could not be imported

    def answer(_api: str, _version: int, _body: Any) -> dict[str, Any]:
        raise AssertionError("the work has begun")

    with scripted_broker(answer) as broker:
        words = ["pipeline", "lag", "--plot", str(tmp_path / "lag.png")]
        assert main([*words, "--broker", str(broker.address)]) == Exit.FAILED

    assert "pip install 'polylog-broker[plot]'" in capsys.readouterr().err
