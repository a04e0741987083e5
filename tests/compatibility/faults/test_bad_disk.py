"""A disk that fails once, with EIO, at every place where the broker calls it, under load.

The places are not listed here: a run on a healthy disk is recorded, and each (moment, operation,
file) of it is one. Only the files of one topic fail, or those that all topics share. Both
durability values are tested. Injected bugs, in which the broker does not see a failure, show that
the checks detect them.
"""

import errno
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.compatibility.faults.disk_load import (
    OTHER,
    TOPICS,
    VICTIM,
    Kept,
    Load,
    check_all_is_there,
    init_transaction,
)
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.faulty_broker import FaultyBroker, Recorded
from tests.support.wire_client import ConnectionClosedError, WireClient

SETTINGS = (
    "log.segment.bytes=1048576",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "log.retention.check.interval.ms=200",
    "log.retention.ms=-1",
    "log.segment.delete.delay.ms=0",
    "group.initial.rebalance.delay.ms=0",
)
AFTER_A_CLEAN_STOP, AFTER_A_KILL = "after a clean stop", "after a kill"
STARTS = (AFTER_A_CLEAN_STOP, AFTER_A_KILL)
RUNNING, STOPPING = "running", "stopping"
# What takes a log offline at once, with everything not acknowledged yet.
ENDS_A_LOG = ("sync_data", "sync", "start_writeback", "write", "send")
# What an acknowledgement waits for under group-commit: none may follow a failure.
ACK_WAITS_FOR = ("sync_data", "sync", "write")
EXIT_STORAGE, EXIT_DATA_DIR = 74, 73
GROUP_COMMIT, OS = "group-commit", "os"
SAMPLED = {GROUP_COMMIT: 7, OS: 3}
MET_TIMEOUT_S = 3.0  # background work is done by then; not every run has all of it


class Site(NamedTuple):
    """A place where the broker calls on the disk."""

    moment: str
    operation: str
    path: str  # a pattern


class Prepared(NamedTuple):
    """Data directories with what was acknowledged, and the call sites of a run on them."""

    word: str
    folders: dict[str, Path]
    kept: dict[str, Kept]
    sites: list[Site]


def names_of(recorded: Recorded, data_dir: Path) -> set[tuple[str, str]]:
    """Return the operations and path patterns, except those of the topic whose disk is healthy."""
    found = set()
    for operation, path, _ in recorded:
        if not path.startswith(str(data_dir)) or f"/{OTHER}-0" in path:
            continue
        inside = re.sub(r"\d{20}", "*", path[len(str(data_dir)) :])
        inside = re.sub(r"/made-[^/]*?(-delete)?(?=/|$)", r"/made-*\1", inside)
        found.add((operation, f"*/{data_dir.name}{inside}"))
    return found


@pytest.fixture(scope="module", params=[GROUP_COMMIT, OS])
def prepared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Prepared:
    root = tmp_path_factory.mktemp("healthy")
    broker = FaultyBroker(root, settings=settings(request.param))
    try:
        return prepare(broker, root, request.param)
    finally:
        if broker.is_running:
            broker.kill()


def settings(word: str) -> tuple[str, ...]:
    return (*SETTINGS, f"polylog.durability={word}")


def prepare(broker: FaultyBroker, root: Path, word: str) -> Prepared:
    broker.start()
    kept = Kept()
    with WireClient(broker.address) as client:
        for topic in TOPICS:
            wire_requests.create_topic(client, topic)
            wire_requests.find_coordinator(client, topic)
            wait_until(partial(commits, client, topic), "groups are served")
            wait_until(partial(transacts, client, topic), "transactions are served")
        Load(client, kept, "before").rounds(2)
    folders = {AFTER_A_KILL: root / "killed", AFTER_A_CLEAN_STOP: root / "stopped"}
    keeps = {}
    broker.kill()
    shutil.copytree(broker.data_dir, folders[AFTER_A_KILL])
    keeps[AFTER_A_KILL] = kept.copy()
    sites: list[Site] = []
    for moment in (AFTER_A_KILL, AFTER_A_CLEAN_STOP):
        broker.records_all = True
        broker.start()
        started = broker.recorded()
        sites += sites_of(moment, started, broker)
        with WireClient(broker.address) as client:
            Load(client, kept, moment.replace(" ", "-")).rounds(2)
        ran = broker.recorded()
        sites += sites_of(RUNNING, ran[len(started) :], broker)
        assert broker.stop() == 0
        sites += sites_of(STOPPING, broker.recorded_by_the_end()[len(ran) :], broker)
        broker.records_all = False
        broker.start()
        with WireClient(broker.address) as client:
            check_all_is_there(client, kept)
        assert broker.stop() == 0
    shutil.copytree(broker.data_dir, folders[AFTER_A_CLEAN_STOP])
    keeps[AFTER_A_CLEAN_STOP] = kept
    return Prepared(word, folders, keeps, sorted(set(sites)))


def sites_of(moment: str, recorded: Recorded, broker: FaultyBroker) -> Iterator[Site]:
    for operation, path in names_of(recorded, broker.data_dir):
        yield Site(moment, operation, path)


def commits(client: WireClient, topic: str) -> bool:
    return wire_requests.commit_offset(client, topic, topic, 0) == 0


def transacts(client: WireClient, topic: str) -> bool:
    return init_transaction(client, topic) is not None


@pytest.mark.slow("a run of a broker for each call that fails")
@pytest.mark.timeout(0)
def test_a_single_disk_failure_takes_at_most_one_partition_offline(
    prepared: Prepared, tmp_path: Path, choices: Random, request: pytest.FixtureRequest
) -> None:
    sites = choices.sample(prepared.sites, len(prepared.sites))
    wanted = len(sites) if request.config.getoption("--every-call-site") else SAMPLED[prepared.word]
    met, tried, found = 0, 0, []
    for number, site in enumerate(sites):
        if met == wanted:
            break
        tried += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            met += is_survived(prepared, site, folder)
        except (AssertionError, ConnectionClosedError, TimeoutError) as error:
            found.append(f"{site}: {error!r}")
        else:
            shutil.rmtree(folder)
    print(f"{met} of {tried} call sites met a fault, of {len(sites)} in all")
    assert found == []
    assert met == wanted or met > len(sites) // 2


@pytest.mark.slow("a run on the failing disk, one on a healthy one")
@pytest.mark.parametrize("prepared", [GROUP_COMMIT], indirect=True)
def test_a_broker_that_acknowledges_after_a_failed_sync_is_detected(
    prepared: Prepared, tmp_path: Path
) -> None:
    site = Site(RUNNING, "sync_data", f"*/{VICTIM}-0/*.log")
    with pytest.raises(AssertionError, match="a record was acknowledged after a failure"):
        is_survived(prepared, site, tmp_path, is_hidden=True)


@pytest.mark.slow("a run on the failing disk, one on a healthy one")
@pytest.mark.parametrize("prepared", [GROUP_COMMIT], indirect=True)
def test_a_broker_that_acknowledges_unwritten_records_is_detected(
    prepared: Prepared, tmp_path: Path
) -> None:
    kept = prepared.kept[AFTER_A_CLEAN_STOP].copy()
    broker = FaultyBroker(tmp_path, settings=settings(prepared.word))
    shutil.copytree(prepared.folders[AFTER_A_CLEAN_STOP], broker.data_dir)
    broker.start()
    broker.fail("write", f"*/{VICTIM}-0/*.log", errno.EIO, is_hidden=True)
    with WireClient(broker.address) as client:
        assert Load(client, kept, "lost").write(VICTIM, 10) == 0
    broker.kill()
    with pytest.raises(AssertionError, match=f"{VICTIM} has lost"):
        check_after(prepared, kept, tmp_path)


def check_after(prepared: Prepared, kept: Kept, folder: Path) -> None:
    """Fail unless a run on a healthy disk has all that was acknowledged, and stops cleanly."""
    healthy = BrokerProcess(folder, settings=settings(prepared.word))
    healthy.start()
    try:
        with WireClient(healthy.address) as client:
            check_all_is_there(client, kept)
        assert healthy.stop() == 0
    finally:
        if healthy.is_running:
            healthy.kill()


def is_survived(prepared: Prepared, site: Site, folder: Path, *, is_hidden: bool = False) -> bool:
    """Let one call fail in a run of the broker; return whether it was made.

    Fail if the damage goes beyond one partition. The broker does not see a hidden failure.
    """
    origin = site.moment if site.moment in STARTS else AFTER_A_CLEAN_STOP
    kept = prepared.kept[origin].copy()
    broker = FaultyBroker(folder, settings=settings(prepared.word))
    shutil.copytree(prepared.folders[origin], broker.data_dir)
    fault = (site.operation, site.path, errno.EIO)
    if site.moment in STARTS:
        broker.faults = [list(fault)]
    try:
        if has_started(broker):
            use(broker, site, kept, prepared.word, is_hidden=is_hidden)
        failures = broker.recorded_by_the_end()
    finally:
        if broker.is_running:
            broker.kill()
    check_after(prepared, kept, folder)
    return bool(failures)


def has_started(broker: FaultyBroker) -> bool:
    """Return whether it could start; if not, it must have logged the reason."""
    try:
        broker.start()
    except AssertionError:
        assert not broker.is_running, "the broker neither starts nor exits"
        assert broker.process.returncode in (EXIT_STORAGE, EXIT_DATA_DIR), broker.stderr()
        assert broker.stderr().splitlines()[-1].startswith("broker: "), broker.stderr()
        return False
    return True


def use(broker: FaultyBroker, site: Site, kept: Kept, word: str, *, is_hidden: bool) -> None:
    """Load it while its disk fails, and stop it."""
    fault = (site.operation, site.path, errno.EIO)
    if site.moment == RUNNING:
        broker.fail(*fault, is_hidden=is_hidden)
    with WireClient(broker.address) as client:
        load = Load(client, kept, "after")
        load.rounds(2)
        if site.moment != STOPPING:
            wait_for_fault(broker, load)
            check_offline(broker, load, word)
        assert load.write(OTHER, 10) == 0
    if site.moment == STOPPING:
        broker.fail(*fault)
    assert broker.stop() in (0, EXIT_STORAGE), broker.stderr()


def wait_for_fault(broker: FaultyBroker, load: Load) -> None:
    """Wait for background work."""
    try:
        wait_until(lambda: bool(broker.recorded()), "the fault has occurred", MET_TIMEOUT_S)
    except AssertionError:
        load.rounds(1)


def check_offline(broker: FaultyBroker, load: Load, word: str) -> None:
    """Fail if a log acknowledges anything after its file has failed."""
    failed = {
        operation
        for operation, path, _ in broker.recorded()
        if operation in ENDS_A_LOG and re.search(rf"/{VICTIM}-0(/\d+\.log)?$", path)
    }
    if failed and not (word == GROUP_COMMIT and failed.intersection(ACK_WAITS_FOR)):
        wait_until(lambda: load.write(VICTIM, 10) != 0, "the partition goes offline")
    if failed:
        assert load.write(VICTIM, 10) != 0, "a record was acknowledged after a failure"
