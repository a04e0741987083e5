"""A protocol is removed with its packages and its row in the list; the others are as before."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.model.protocol_names import PROTOCOL_NAMES
from tests.protocols.removal import (
    broker_of,
    change,
    own_sources,
    package_without,
    python_of,
    shared_tests,
    source_without,
)
from tests.support import wire_requests
from tests.support.batches import batch_of, records_of
from tests.support.cursus_client import CursusClient, Message, batch
from tests.support.line_client import LineClient
from tests.support.rustlog_client import ConnectionEndedError, RustLogClient
from tests.support.wire_client import WireClient

REMOVABLE = ("v1", "rustlog", "cursus")
TIMEOUT_S = 60
BUILD_S = 3_600
TOPIC = "orders"
TIME_MS = 1_700_000_000_000
# Imports every module, also those that only some commands or handlers import.
IMPORT_ALL = """
import pkgutil
from importlib import import_module
import broker
for each in pkgutil.walk_packages(broker.__path__, "broker."):
    if not each.name.startswith(("broker.pipeline", "broker.__main__")):
        import_module(each.name)
"""


@pytest.fixture(scope="module", params=REMOVABLE)
def removed(request: pytest.FixtureRequest) -> str:
    """The name of the protocol that is removed."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def package(removed: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without it."""
    return package_without(removed, tmp_path_factory.mktemp(f"without-{removed}"))


def kafka(address: str, value: bytes) -> list[bytes]:
    """Write a record through Kafka's protocol; return all records of the topic."""
    with WireClient(address) as client:
        code, _ = wire_requests.produce(client, TOPIC, batch_of([(None, value, ())], TIME_MS))
        assert code == 0
        end, read = wire_requests.end_offset(client, TOPIC), list[bytes]()
        while len(read) < end:
            fetched = wire_requests.fetch(client, TOPIC, 0, len(read))
            read += [value or b"" for _, _, _, value, _ in records_of(fetched)]
    return read


def v1(address: str, value: bytes) -> list[bytes]:
    with LineClient(address) as client:
        client.send(b"V1|1|PRODUCE|%s key:%s\n" % (TOPIC.encode(), value))
        assert client.line().startswith(b"V1|1|OK|")
        client.send(b"V1|2|CONSUME|%s 0 0\n" % TOPIC.encode())
        return re.findall(rb"\d+:([a-z0-9]+)", client.line())


def rustlog(address: str, value: bytes) -> list[bytes]:
    with RustLogClient(address) as client:
        client.produce(TOPIC, [value])
        return list(client.read_all(TOPIC).values())


def cursus(address: str, value: bytes) -> list[bytes]:
    with CursusClient(address) as client:
        answer = json.loads(client.answer(batch(TOPIC, 0, [Message(value)])))
        assert answer["status"] == "OK"
        read = client.consume(f"CONSUME topic={TOPIC} partition=0 offset=0")
        return [each.payload for each in read.messages]


def is_ready(address: str) -> bool:
    """Whether the health check answers that it is."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as client:
        client.sendall(b"GET /ready HTTP/1.1\r\n\r\n")
        return client.recv(1000).startswith(b"HTTP/1.1 200 OK")


CLIENTS: dict[str, Callable[[str, bytes], list[bytes]]] = {
    "kafka": kafka,
    "v1": v1,
    "rustlog": rustlog,
    "cursus": cursus,
}


def test_each_protocol_but_http_has_a_client_here() -> None:
    assert {*CLIENTS, "http"} == set(PROTOCOL_NAMES)


def test_a_broker_without_a_protocol_serves_the_others_and_names_it_nowhere(
    removed: str, package: Path, tmp_path: Path
) -> None:
    broker = broker_of(package, tmp_path)
    broker.start()
    written: list[bytes] = []
    try:
        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, TOPIC)
            wire_requests.end_offset(client, TOPIC)
        for name, ask in CLIENTS.items():
            if name != removed:
                written.append(f"value{len(written)}".encode())
                assert ask(broker.address, written[-1]) == written
        assert is_ready(broker.address)
        with pytest.raises((OSError, AssertionError, ConnectionEndedError)):
            CLIENTS[removed](broker.address, b"refused")
        with WireClient(broker.address) as client:
            keys = config_keys(client)
        assert broker.stop() == 0

        broker.start()
        assert kafka(broker.address, b"last") == [*written, b"last"]
        assert broker.stop() == 0
    finally:
        broker.kill()
    broker.check()
    assert "polylog.durability" in keys
    for text in (broker.stdout(), broker.stderr(), "\n".join(keys)):
        assert removed not in re.findall(r"[a-z0-9]+", text.lower())


def config_keys(client: WireClient) -> list[str]:
    """Return the names of all settings of the topic and the broker."""
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in ((2, TOPIC), (4, "1"))
    ]
    answer = client.request(
        "DescribeConfigs",
        1,
        {"resources": resources, "include_synonyms": False},
    )
    return [each["name"] for result in answer["results"] for each in result["configs"]]


@pytest.mark.parametrize("words", [["--help"], ["start", "--help"], ["import", "--help"]])
def test_the_help_of_commands_without_a_protocol_does_not_name_it(
    words: list[str], removed: str, package: Path
) -> None:
    shown = run(python_of(package, "-m", "broker", *words))

    assert removed not in re.findall(r"[a-z0-9]+", shown.lower())


def test_no_module_needs_a_protocol_that_is_removed(package: Path) -> None:
    run(python_of(package, "-W", "error", "-c", IMPORT_ALL))


@pytest.mark.slow("compiles all native modules")
def test_sources_without_a_protocol_are_built_and_pass_their_tests(
    removed: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if not pytestconfig.getoption("--rebuild-without-protocols"):
        pytest.skip("--rebuild-without-protocols builds the package once for each protocol")
    source = source_without(removed, tmp_path / "source")
    assert [each for each in own_sources(removed) if (source / each).exists()] == []
    package = tmp_path / "package"
    options = ["--no-build-isolation", "--no-deps", "--target", str(package)]
    options += [f"--config-settings=build-dir={tmp_path / 'build'}"]
    run([sys.executable, "-m", "pip", "install", "--quiet", *options, str(source)], BUILD_S)
    ignored = [f"--ignore={each}" for each in shared_tests(removed, source)]
    tests = ["tests/unit", "tests/native", "-q", "-n", "2", "-p", "no:cacheprovider", *ignored]

    run(python_of(package, "-m", "pytest", "--rootdir", str(source), *tests), BUILD_S, source)


def run(command: list[str], timeout_s: float = TIMEOUT_S, folder: Path | None = None) -> str:
    """Run a command that succeeds; return what it prints."""
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=timeout_s, cwd=folder
    )
    assert ended.returncode == 0, f"{ended.stdout[-10_000:]}{ended.stderr}"
    return ended.stdout


@pytest.mark.control
def test_a_module_elsewhere_that_imports_the_protocol_is_found(tmp_path: Path) -> None:
    package = package_without("v1", tmp_path)
    line = "\n\ndef later() -> None:\n    from broker.protocols.v1 import errors\n\n\nlater()\n"
    change(package / "broker/core/service.py", lambda text: text + line)

    with pytest.raises(AssertionError, match=r"No module named 'broker\.protocols\.v1'"):
        run(python_of(package, "-c", IMPORT_ALL))
