"""Many faults of a cluster with replicated topics, one after another, and a table of them.

    python -m tests.cluster.drills --faults 100 --seed 7 --client librdkafka

Each row is a fault: how long it took until all brokers had everything again, how many requests were
answered meanwhile, and the longest time in which none was. The last lines are what the checker of
histories says of everything that the clients saw, and whether all replicas have the same bytes.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Self

from tests.cluster.loads.client_load import COPIED, PARTITIONS, SENT
from tests.cluster.loads.clients import CLIENTS
from tests.cluster.loads.network_faults import CUTS, LAG_MS
from tests.cluster.loads.replica_faults import FAULTS
from tests.cluster.loads.running import running_load
from tests.cluster.replica_files import differing
from tests.conftest import TEST_SETTINGS
from tests.histories.history import Operation, Recorder, decode
from tests.support.broker_network import broker_network
from tests.support.cluster_process import ClusterProcess
from tests.support.faulty_broker import FaultyBroker

LOOK_S = 0.05
ROW = "{:>4}  {:<20} {:>8} {:>10} {:>10}"


class Gaps:
    """Watches how many requests are answered, and the longest time without an answer."""

    def __init__(self, history: Recorder) -> None:
        self._history = history
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.answers = 0
        self.longest_s = 0.0

    def _watch(self) -> None:
        first = last = sum(self._history.done().values())
        since = time.monotonic()
        while not self._is_over.wait(LOOK_S):
            now = sum(self._history.done().values())
            self.longest_s = max(self.longest_s, time.monotonic() - since)
            if now > last:
                last, since = now, time.monotonic()
            self.answers = last - first

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def cluster_in(folder: Path, *, cuts: bool) -> Iterator[ClusterProcess]:
    """Run three brokers; they must have logged no error in the end.

    With `cuts` they are in a network that can be cut; otherwise their disks can fail.
    """
    settings = (*TEST_SETTINGS, f"replica.lag.time.max.ms={LAG_MS}")
    with ExitStack() as closing:
        if cuts:
            network = closing.enter_context(broker_network())
            cluster = ClusterProcess(folder, settings=settings, network=network)
        else:
            cluster = ClusterProcess(folder, settings=settings, kind=FaultyBroker)
        closing.callback(cluster.close)
        cluster.start()
        yield cluster
        cluster.check()


def drill(
    folder: Path, client: str, faults: int, seed: int, *, cuts: bool = False, only: str = ""
) -> int:
    """Run the faults and print the table; return how many acknowledged records there are."""
    choices = Random(seed)
    kinds = [each for each in (CUTS if cuts else FAULTS) if only in each.__name__]
    with cluster_in(folder / "cluster", cuts=cuts) as cluster:
        with running_load(cluster, CLIENTS[client](), folder, replicas=3) as load:
            print(ROW.format("", "fault", "seconds", "answers", "gap (s)"))
            for number in range(1, faults + 1):
                fault = choices.choice(kinds)
                begun = time.monotonic()
                with Gaps(load.history) as gaps, load.fault(fault.__name__):
                    fault(cluster, load, choices)
                seconds = f"{time.monotonic() - begun:.1f}"
                gap = f"{gaps.longest_s:.1f}"
                print(ROW.format(number, fault.__name__, seconds, gaps.answers, gap), flush=True)
        with (folder / "history.jsonl").open() as lines:
            acknowledged = sum(map(_acknowledged, decode(lines)))
        for each in cluster.brokers:
            cluster.drain(each)
        found = [each for topic in (SENT, COPIED) for each in differing(cluster, topic, PARTITIONS)]
        assert found == [], found
    return acknowledged


def _acknowledged(operation: Operation) -> int:
    is_answer = (operation.f, operation.type) == ("send", "ok")
    return len(operation.value["values"]) if is_answer else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.cluster.drills")
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", choices=CLIENTS, default="librdkafka")
    parser.add_argument("--cuts", action="store_true", help="of the network, instead of others")
    parser.add_argument("--only", default="", help="faults with this in their name")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="drills-"))
    print(f"client {options.client}, seed {options.seed}, files in {folder}")
    of_client = folder, options.client, options.faults, options.seed
    acknowledged = drill(*of_client, cuts=options.cuts, only=options.only)
    print(f"{acknowledged} records acknowledged: none lost, repeated or out of order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
