"""`broker start` as a user meets it: banner, port, exit codes, signals, lock (design section 4)."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, printed_address, wait_until
from tests.support.wire_client import WireClient

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_DATA_DIR = 73

StartBroker = Callable[..., BrokerProcess]
Launch = Callable[..., BrokerProcess]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start brokers that are expected to end by themselves."""
    brokers: list[BrokerProcess] = []

    def start(
        *settings: str, listen: str = "127.0.0.1:0", data_dir: Path | None = None
    ) -> BrokerProcess:
        folder = tmp_path / f"launched-{len(brokers)}"
        folder.mkdir()
        broker = BrokerProcess(folder, settings=settings, listen=listen)
        broker.data_dir = data_dir or broker.data_dir
        broker.launch()
        brokers.append(broker)
        return broker

    yield start
    for broker in brokers:
        broker.kill()


def answers(address: str) -> bool:
    """Return whether a broker speaks Kafka there."""
    with WireClient(address) as client:
        return client.request("ApiVersions", 0, {})["error_code"] == 0


def test_the_banner_shows_address_durability_and_how_to_connect(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()

    banner = broker.stdout()
    assert broker.address in banner
    assert str(broker.data_dir) in banner
    assert "group-commit" in banner
    assert f'"bootstrap.servers": "{broker.address}"' in banner
    assert re.search(r"^\s*from \w+ import \w+", banner, re.MULTILINE)


def test_the_banner_shows_the_requested_durability(start_broker: StartBroker) -> None:
    broker = start_broker("polylog.durability=os")

    assert re.search(r"durability\s+os\b", broker.stdout())


def test_port_0_is_printed_served_and_advertised(start_broker: StartBroker) -> None:
    broker = start_broker()

    assert not broker.address.endswith(":0")
    with WireClient(broker.address) as client:
        [node] = client.request("Metadata", 1, {"topics": []})["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.address


def test_a_start_raises_the_descriptor_limit_to_the_hard_limit(start_broker: StartBroker) -> None:
    broker = start_broker()

    limits = Path(f"/proc/{broker.process.pid}/limits").read_text()
    found = re.search(r"^Max open files\s+(\d+)\s+(\d+)", limits, re.MULTILINE)
    assert found is not None
    assert found[1] == found[2]


def test_localhost_is_served_over_ipv4_and_ipv6(launch: Launch) -> None:
    broker = launch(listen="localhost:0")

    wait_until(lambda: ":" in broker.stdout(), "banner")
    [port] = set(re.findall(r"(?:localhost|127\.0\.0\.1|\[::1\]):(\d+)", broker.stdout()))
    assert answers(f"127.0.0.1:{port}")
    assert answers(f"::1:{port}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_broker_with_exit_code_0(
    start_broker: StartBroker, number: signal.Signals
) -> None:
    old = signal.signal(number, signal.SIG_DFL)  # under nohup a broker ignores SIGHUP, and may
    try:
        broker = start_broker()
    finally:
        signal.signal(number, old)

    broker.signal(number)

    assert broker.wait() == EXIT_OK


def test_the_broker_stops_while_clients_are_connected(start_broker: StartBroker) -> None:
    broker = start_broker()
    with WireClient(broker.address) as silent:
        assert silent.request("ApiVersions", 0, {})["error_code"] == 0

        broker.signal(signal.SIGTERM)

        assert broker.wait() == EXIT_OK


def test_a_second_start_names_the_holder_of_the_directory_and_exits_73(
    start_broker: StartBroker, launch: Launch
) -> None:
    first = start_broker()

    second = launch(data_dir=first.data_dir)

    assert second.wait() == EXIT_DATA_DIR
    assert str(first.process.pid) in second.stderr()
    assert str(first.data_dir) in second.stderr()
    assert "Traceback" not in second.stderr()
    assert answers(first.address)


def test_a_killed_broker_leaves_no_lock(start_broker: StartBroker) -> None:
    broker = start_broker()

    broker.kill()
    broker.restart()

    assert answers(broker.address)


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("num.partition=3", "num.partitions"),
        ("polylog.durabilty=os", "polylog.durability"),
        ("num.partitions=0", "1"),
        ("polylog.durability=never", "group-commit"),
        ("num.partitions", "="),
    ],
)
def test_an_invalid_setting_exits_2_with_a_suggestion(
    launch: Launch, setting: str, hint: str
) -> None:
    broker = launch(setting)

    assert broker.wait() == EXIT_USAGE
    assert setting.partition("=")[0] in broker.stderr()
    assert hint in broker.stderr()
    assert "Traceback" not in broker.stderr()
    assert not broker.data_dir.exists()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_listening_on_all_addresses_needs_the_insecure_option(launch: Launch, listen: str) -> None:
    broker = launch(listen=listen)

    assert broker.wait() == EXIT_USAGE
    assert "polylog.insecure" in broker.stderr()


def test_a_broker_that_listens_on_all_addresses_is_reported_as_insecure(launch: Launch) -> None:
    broker = launch("polylog.insecure=true", listen="0.0.0.0:0")

    wait_until(lambda: printed_address(broker.stdout()) is not None, "banner")
    assert "insecure" in broker.stdout()
    with WireClient(printed_address(broker.stdout()) or "") as client:
        [node] = client.request("Metadata", 1, {"topics": []})["brokers"]
    assert node["host"] == "127.0.0.1"


def test_a_port_in_use_is_reported_in_one_line(start_broker: StartBroker, launch: Launch) -> None:
    first = start_broker()

    second = launch(listen=first.address)

    assert second.wait() != EXIT_OK
    assert first.address.rpartition(":")[2] in second.stderr()
    assert "Traceback" not in second.stderr()


def test_check_prints_the_settings_and_starts_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, settings=["num.partitions=3"])

    done = subprocess.run(
        [*broker.command(), "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == EXIT_OK
    assert "num.partitions=3" in done.stdout
    assert not broker.data_dir.exists()
