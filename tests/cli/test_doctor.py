"""`broker doctor` with brokers that run, or do not."""

from collections.abc import Callable

from tests.support.broker_process import BrokerProcess
from tests.support.command_line import CommandLine

UNHEALTHY = 8


def rows(address: str, *options: str, code: int = 0) -> dict[str, dict[str, str]]:
    """Return the rows by their check."""
    found = CommandLine(address)("doctor", *options, code=code).rows
    return {each["check"]: each for each in found}


def test_a_broker_that_is_well_is_reached_where_clients_reach_it(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()

    found = rows(broker.address, "--data-dir", str(broker.data_dir))

    assert (found["advertised"]["severity"], found["health"]["severity"]) == ("ok", "ok")
    assert f"a broker uses it: pid {broker.process.pid}" in found["directory"]["reason"]


def test_an_advertised_address_at_which_nothing_answers_is_found(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker("advertised.listeners=PLAINTEXT://127.0.0.1:1")

    found = rows(broker.address, code=UNHEALTHY)["advertised"]

    assert found["severity"] == "problem"
    assert "clients get 127.0.0.1:1" in found["reason"]
    assert "set advertised.listeners" in found["fix"]


def test_a_broker_that_does_not_answer_is_found() -> None:
    assert rows("127.0.0.1:1", code=UNHEALTHY)["broker"]["severity"] == "problem"
