"""`broker demo`: something to look at, in a running broker or in one for the time of the demo."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from broker.cli.confirmation import confirm
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.reporting import DEFAULT_BOOTSTRAP
from broker.cli.sample_stream import GROUP, PARTITIONS, TOPIC, by_partition, orders
from broker.cli.times import Seconds
from broker.model.errors import ErrorCode, RequestError, StorageError, Unreachable

if TYPE_CHECKING:
    from broker.client.metadata import Cluster

_STEPS: Final = 20  # of the stream, evenly over its time
_STOP_SECONDS: Final = 30
_LAG_PERCENT: Final = 20
LOOK_AT: Final = (
    "broker topic list",
    f"broker topic consume {TOPIC} --count 3",
    f"broker group lag {GROUP}",
    f"broker group explain {GROUP}",
    "broker cluster health",
    "broker docs quickstart",
    "broker demo clean",
)


class Demo(NamedTuple):
    """What was made, or removed.

    Attributes:
        topic: with the stream.
        partitions: of the topic.
        records: that were produced by this run, or that go with the topic.
        group: that has read a part of the stream.
        lag: records that the group has not read.
        bootstrap_server: the broker.
        data_dir: of a broker that was started for the demo, null if one was running.
        status: made; removed, would_be_removed or absent of `clean`.
    """

    topic: str
    partitions: int
    records: int
    group: str
    lag: int
    bootstrap_server: str
    data_dir: str | None
    status: str


@verb(
    Demo,
    name="demo",
    is_single=True,
    examples=("broker demo", "broker demo --records 100000 --seconds 30", "broker demo clean"),
)
@click.argument("action", type=click.Choice(("run", "clean")), default="run")
@click.option(
    "--records",
    type=click.IntRange(1, 10_000_000),
    default=10_000,
    metavar="N",
    help="How many orders are produced at most (default: 10000).",
)
@click.option(
    "--seconds",
    type=Seconds(0, 3600),
    default=5.0,
    metavar="SECONDS",
    help="How long the stream takes (default: 5).",
)
@yes
@dry_run
def command(
    session: Session,
    action: str,
    records: int,
    seconds: float,
    yes: bool,  # noqa: FBT001
    dry_run: bool,  # noqa: FBT001
) -> None:
    """Produce a stream of sample orders, with a group that lags; `clean` removes both.

    To remove them the topic's name must be typed, or --yes be given.

    Without a running broker, one is started with its data in a temporary directory. On a terminal
    it runs until Ctrl-C, elsewhere it ends with the command; its data goes with it.
    """
    if action == "clean":
        _clean(session, is_confirmed=yes, is_dry_run=dry_run)
        return
    if yes or dry_run:
        raise click.UsageError("--yes and --dry-run are options of `broker demo clean`")
    try:
        cluster = session.cluster
    except Unreachable as error:
        print(f"{error}: a broker is started for the demo", file=sys.stderr)
    else:
        _show(session, cluster, None, _stream(cluster, records, seconds))
        return
    with _temporary_broker() as (cluster, folder):
        _show(session, cluster, folder, _stream(cluster, records, seconds))
        if sys.stdout.isatty():
            print("The broker of the demo runs until Ctrl-C.", file=sys.stderr)
            signal.pause()


def _show(session: Session, cluster: "Cluster", folder: Path | None, done: tuple[int, int]) -> None:
    produced, lag = done
    data = None if folder is None else str(folder)
    session.write(Demo(TOPIC, PARTITIONS, produced, GROUP, lag, str(cluster), data, "made"))
    where = "" if str(cluster) == DEFAULT_BOOTSTRAP else f" -b {cluster}"
    print("Look at it with:", file=sys.stderr)
    for each in LOOK_AT:
        place = "" if each.startswith("broker docs") else where
        print(f"  {each}{place}", file=sys.stderr)


def _stream(cluster: "Cluster", count: int, seconds: float) -> tuple[int, int]:
    """Produce the stream; return the number of its records, and the lag of the group."""
    from broker.client.admin import create_topic  # noqa: PLC0415 - not needed by `--help`
    from broker.client.groups import commit_offsets  # noqa: PLC0415
    from broker.client.offsets import LATEST, list_offsets  # noqa: PLC0415
    from broker.client.produce import Producer  # noqa: PLC0415
    from broker.client.transactions import new_producer_id  # noqa: PLC0415

    create_topic(cluster, TOPIC, PARTITIONS)
    producer = Producer(cluster, new_producer_id(cluster))
    stream, begun, produced = orders(count), time.perf_counter(), 0
    for step in range(_STEPS):
        some = list(islice(stream, -(-count // _STEPS)))
        for number, records in by_partition(some).items():
            place = (TOPIC, number)
            producer.send({place: producer.encode(place, records, compression="zstd")})
        produced += len(some)
        left = begun + seconds * (step + 1) / _STEPS - time.perf_counter()
        time.sleep(max(left, 0))
    ends = list_offsets(cluster, {(TOPIC, each): LATEST for each in range(PARTITIONS)})
    read = {place: each.offset * (100 - _LAG_PERCENT) // 100 for place, each in ends.items()}
    commit_offsets(cluster, GROUP, read)
    return produced, sum(each.offset - read[place] for place, each in ends.items())


def _clean(session: Session, *, is_confirmed: bool, is_dry_run: bool) -> None:
    """Remove the topic and the group; what is not there was removed before."""
    from broker.cli.topic.delete_verb import what_goes  # noqa: PLC0415 - not needed by `--help`
    from broker.client.groups import delete_group  # noqa: PLC0415
    from broker.client.topics import delete_topics, topic_states  # noqa: PLC0415

    cluster = session.cluster
    goes = what_goes(cluster, topic_states(cluster, [TOPIC]))
    status = "would_be_removed" if is_dry_run else "removed"
    partitions, records = sum(each.partitions for each in goes), sum(each.records for each in goes)
    done = status if goes else "absent"
    row = Demo(TOPIC, partitions, records, GROUP, 0, str(cluster), None, done)
    if not is_dry_run:
        if goes:
            lines = [f"{TOPIC}: {records:,} records, and the group {GROUP}"]
            confirm(lines, [TOPIC], is_confirmed=is_confirmed)
        try:
            delete_group(cluster, GROUP)
        except RequestError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
        for failed in delete_topics(cluster, [each.topic for each in goes]).values():
            if failed is not None:
                raise failed
    session.write(row)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that end a process end the block first, so that nothing is left behind."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)  # as a shell reports it

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _temporary_broker() -> Iterator[tuple["Cluster", Path]]:
    """Start a broker on a free port, with its data in a temporary directory."""
    from broker.client.metadata import Cluster  # noqa: PLC0415 - not needed by `--help`
    from broker.model.address import parse_addresses  # noqa: PLC0415

    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="polylog-demo-") as name:
        folder = Path(name, "data")
        options = ["--data-dir", str(folder), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-m", "broker", "start", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            address = re.search(r"127\.0\.0\.1:\d+", said)
            if address is None:
                raise StorageError(
                    f"the broker of the demo has not started: `broker start --data-dir {folder}`"
                    " says why"
                )
            yield Cluster(parse_addresses(address[0])), folder
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)
            process.stdout.close()


NOUN: Final = command
