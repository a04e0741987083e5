"""kill -9 under the load of transactions and of a group: what was acknowledged holds.

The history is compared with what the clients were told: no value of an aborted transaction is read,
none of a committed one is lost, each transaction is there as a whole or not at all, what is copied
in transactions is copied once, and committed offsets never go back.
"""

import random
from collections.abc import Callable, Sequence

import pytest

from tests import wire_requests
from tests.broker_process import BrokerProcess, wait_until
from tests.compatibility.committed import committed, committed_values
from tests.compatibility.load import Worker
from tests.compatibility.transaction_load import (
    PARTITIONS,
    Copier,
    Reader,
    Transactions,
    Writer,
    committed_offsets,
)
from tests.wire_client import WireClient

SOURCE, TARGET, GROUP = "written", "copied", "readers"
COMMITS_PER_LIFE = (3, 30)  # of each worker; the kill comes at a random place between
LIFE_TIMEOUT_S = 180.0
CYCLES_SHARE = 4  # A life of these clients is as long as four of those of test_kill.


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("durability", "protocol"), [("os", "consumer"), ("group-commit", "classic")]
)
def test_kill_dash_nine_leaves_every_transaction_and_commit_as_it_was_told(
    start_broker: Callable[..., BrokerProcess],
    durability: str,
    protocol: str,
    request: pytest.FixtureRequest,
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with WireClient(broker.address) as client:
        for topic in (SOURCE, TARGET):
            wire_requests.create_topic(client, topic, PARTITIONS)
    at = broker.address
    writers = [Writer(f"writer-{place}", at, SOURCE) for place in range(3)]
    copiers = [Copier(f"copier-{place}", at, protocol, SOURCE, TARGET) for place in range(2)]
    readers = [Reader(f"reader-{place}", at, protocol, GROUP, SOURCE) for place in range(2)]
    for worker in (*writers, *copiers, *readers):
        worker.start()

    moments = random.Random(durability)
    for _ in range(max(1, request.config.getoption("--kill-cycles") // CYCLES_SHARE)):
        let_live([*writers, *copiers, *readers], moments.randint(*COMMITS_PER_LIFE))
        broker.kill()
        acknowledged = [dict(reader.acknowledged) for reader in readers]
        broker.restart()
        check_offsets(broker, acknowledged)
    let_live([*writers, *copiers, *readers], 1)
    stop(writers)
    written = committed_values(broker.address, SOURCE, at_least=1, partitions=PARTITIONS)
    committed(broker.address, TARGET, at_least=len(written), partitions=PARTITIONS)
    stop([*copiers, *readers])

    for writer in writers:
        writer.check(written)
    assert read(broker, TARGET) == read(broker, SOURCE), "copied once each, in order"


def let_live(workers: Sequence[Transactions | Reader], commits: int) -> None:
    """Wait until the workers of each kind have committed so often, or one of them has failed."""
    kinds = {type(worker) for worker in workers}
    before = {kind: count(workers, kind) for kind in kinds}

    def has_gone_on() -> bool:
        return any(worker.failure for worker in workers) or all(
            count(workers, kind) >= before[kind] + commits for kind in kinds
        )

    try:
        wait_until(has_gone_on, "everybody commits", LIFE_TIMEOUT_S)
    except AssertionError as error:
        counts = {worker.name: worker.commits for worker in workers}
        raise AssertionError(f"{commits} more than {before}: {counts}") from error
    assert not any(worker.failure for worker in workers), [w.failure for w in workers]


def count(workers: Sequence[Transactions | Reader], kind: type[Worker]) -> int:
    """Return how often the workers of a kind have committed."""
    return sum(worker.commits for worker in workers if type(worker) is kind)


def stop(workers: Sequence[Worker]) -> None:
    """Stop workers."""
    for worker in workers:
        worker.stop()


def check_offsets(broker: BrokerProcess, acknowledged: list[dict[int, int]]) -> None:
    """Fail if a commit that a reader was told of does not hold."""
    found = committed_offsets(broker.address, GROUP, SOURCE)
    for of_reader in acknowledged:
        for partition, offset in of_reader.items():
            assert found[partition] >= offset, f"{partition}: {found[partition]} < {offset}"


def read(broker: BrokerProcess, topic: str) -> dict[int, list[str]]:
    """Return the committed values of each partition."""
    values: dict[int, list[str]] = {}
    for message in committed(broker.address, topic, at_least=1, partitions=PARTITIONS):
        values.setdefault(message.partition() or 0, []).append((message.value() or b"").decode())
    return values
