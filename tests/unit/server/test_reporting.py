"""What a service manager is told while a broker starts, runs and waits."""

from types import SimpleNamespace
from typing import Any

from broker.core.health import Stage
from broker.server.reporting import Reporting
from broker.server.service_manager import EXTENSION
from tests.support.fakes import FakeBroker


class Manager:
    """Keeps the lines that it is told."""

    def __init__(self, watchdog_seconds: float | None = None) -> None:
        self.watchdog_seconds = watchdog_seconds
        self.told: list[str] = []

    def tell(self, *lines: str) -> None:
        self.told += lines

    def take(self) -> list[str]:
        """Return what it was told since the last time, without the status."""
        told, self.told = self.told, []
        return [line for line in told if not line.startswith("STATUS=")]


def reporting(manager: Any, broker: FakeBroker) -> Reporting:
    poller: Any = SimpleNamespace(connections={})
    return Reporting(manager, broker.broker, poller)


def test_more_time_is_asked_for_until_the_logs_are_recovered_and_it_has_joined() -> None:
    broker, manager = FakeBroker(), Manager()
    broker.create("t")
    broker.log("t").is_loading = True
    reports = reporting(manager, broker)
    reports.report()
    assert manager.take() == [EXTENSION]
    reports.is_announced = True
    reports.report()
    assert manager.take() == [EXTENSION]
    broker.log("t").is_loading = False
    reports.report()
    assert manager.take() == ["READY=1"]
    reports.report()
    assert manager.take() == []


def test_the_watchdog_hears_of_each_report() -> None:
    manager = Manager(watchdog_seconds=3.0)
    reports = reporting(manager, FakeBroker())
    reports.is_announced = True
    for _ in range(3):
        reports.report()
    assert manager.take() == ["WATCHDOG=1", "READY=1", "WATCHDOG=1", "WATCHDOG=1"]


def test_the_status_is_told_when_it_has_changed() -> None:
    broker, manager = FakeBroker(), Manager()
    broker.create("t", partitions=3)
    reports = reporting(manager, broker)
    reports.is_announced = True
    reports.report()
    status = "partitions=3 connections=0 disk=NORMAL free_mib=0"
    assert manager.told[-1] == f"STATUS=ready: {status}"
    manager.take()
    reports.report()
    assert manager.told == []
    broker.broker.health.stage = Stage.STOPPING
    reports.report()
    assert manager.told == [f"STATUS=stopping: {status}"]
