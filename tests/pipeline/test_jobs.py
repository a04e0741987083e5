"""Archive, replay and dedupe, with a real Spark and a real broker."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from broker.model.errors import PolylogError, RequestError
from broker.pipeline.jobs.archive import ArchiveOptions, archive, compact
from broker.pipeline.jobs.dedupe import DedupeOptions, dedupe
from broker.pipeline.jobs.replay import ReplayOptions, replay
from broker.pipeline.source.topics import DataLoss
from tests.pipeline import archive_driver, java_classes, job_driver
from tests.pipeline.killing import TIMEOUT_S, run_until_killed
from tests.pipeline.reading import read_committed
from tests.pipeline.rows import Row
from tests.support.broker_process import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.client

FIRST_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DRILL_TIMEOUT_S = 20 * TIMEOUT_S  # of any number of kills
FORMATS = ("delta", "parquet")
Fill = Callable[..., None]
Kills = Callable[[Sequence[str], int], list[str]]


def some(count: int, partitions: int = 2) -> list[Row]:
    """Records of three days."""
    return [
        (
            each % partitions,
            b"k%d" % each if each % 3 else None,
            b"v%d" % each if each % 5 else None,
            [("n", b"%d" % each)] if each % 2 else [],
            FIRST_MS + each * 72 * HOUR_MS // count,
        )
        for each in range(count)
    ]


def archived(folder: Path, table_format: str) -> list[Any]:
    """Return the records of a table by partition and offset, as read_committed returns them."""
    if table_format == "delta":
        deltalake = pytest.importorskip("deltalake")
        files = deltalake.DeltaTable(str(folder)).file_uris()
    else:
        files = [str(each) for each in folder.glob("date=*/*.parquet")]
    rows = [row for each in files for row in pq.ParquetFile(each).read().to_pylist()]
    return sorted(
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
            round(row["timestamp"].timestamp() * 1000),
        )
        for row in rows
    )


def content(broker: Broker, topic: str) -> list[Any]:
    """Return the records of a topic by partition and in order, whatever their offsets."""
    return [each._replace(offset=0) for each in read_committed(broker.address, topic)]


def options_of(broker: Broker, topic: str, folder: Path, table_format: str) -> ArchiveOptions:
    return ArchiveOptions(
        broker.address, topic, folder, table_format, commit_records=archive_driver.COMMIT_RECORDS
    )


@pytest.mark.parametrize("table_format", FORMATS)
def test_an_archive_equals_the_topic_and_the_next_run_continues(
    spark: "SparkSession",
    broker: Broker,
    fill: Fill,
    topic: str,
    tmp_path: Path,
    table_format: str,
) -> None:
    options = options_of(broker, topic, tmp_path / "table", table_format)
    fill(topic, some(1_000), partitions=2)

    report = archive(spark, options)
    assert report.totals["records"] == 1_000
    assert report.totals["commits"] == 3
    assert archive(spark, options).totals["commits"] == 0
    fill(topic, some(100))
    archive(spark, options)
    compact(options.folder, table_format)

    found = archived(options.folder, table_format)
    assert found == sorted(tuple(each) for each in read_committed(broker.address, topic))
    days = {each.name for each in options.folder.glob("date=*")}
    assert days == {f"date=2023-11-{day}" for day in (14, 15, 16, 17)}


def test_a_missing_topic_is_named_and_nothing_is_created(
    spark: "SparkSession", broker: Broker, fill: Fill, topic: str, tmp_path: Path
) -> None:
    fill(topic, partitions=1)
    folder = tmp_path / "folder"
    names = pytest.raises(RequestError, match="no topic named 'nowhere'")

    with names:
        archive(spark, options_of(broker, "nowhere", folder, "delta"))
    for source, target in (("nowhere", topic), (topic, "nowhere")):
        with names:
            dedupe(spark, job_driver.dedupe_options(broker.address, folder, target, source))

    assert not folder.exists()


def test_records_deleted_by_retention_before_they_were_archived_are_reported(
    spark: "SparkSession", broker: Broker, fill: Fill, topic: str, tmp_path: Path
) -> None:
    from confluent_kafka import TopicPartition  # noqa: PLC0415 - of this test alone
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    options = options_of(broker, topic, tmp_path / "table", "parquet")
    fill(topic, some(10, 1), partitions=1)
    archive(spark, options)
    fill(topic, some(10, 1))
    admin = AdminClient({"bootstrap.servers": broker.address})
    place = TopicPartition(topic, 0, 15)
    admin.delete_records([place])[place].result(10)

    with pytest.raises(DataLoss, match=r"continues at offset 10.*has deleted 5 offsets"):
        archive(spark, options)
    archive(spark, options._replace(fails_on_data_loss=False))

    assert [each[1] for each in archived(options.folder, "parquet")] == [
        *range(10),
        *range(15, 20),
    ]


@pytest.mark.slow("starts Spark again for each kill")
@pytest.mark.timeout(DRILL_TIMEOUT_S)
@pytest.mark.parametrize(
    ("table_format", "places", "in_suite"),
    [
        ("delta", archive_driver.PLACES, 3),
        ("parquet", ("link", *archive_driver.PLACES), 1),
    ],
)
def test_a_killed_archive_job_archives_every_record_once(
    spark: "SparkSession",
    broker: Broker,
    fill: Fill,
    kills: Kills,
    topic: str,
    tmp_path: Path,
    table_format: str,
    places: tuple[str, ...],
    in_suite: int,
) -> None:
    options = options_of(broker, topic, tmp_path / "table", table_format)
    fill(topic, some(200), partitions=2)

    for place in kills(places, in_suite):
        fill(topic, some(800))
        where = broker.address, topic, options.folder, table_format
        run_until_killed(archive_driver, *where, place)
    archive(spark, options)

    found = archived(options.folder, table_format)
    assert found == sorted(tuple(each) for each in read_committed(broker.address, topic))


@pytest.mark.slow("starts Spark again for each kill")
@pytest.mark.timeout(DRILL_TIMEOUT_S)
def test_a_killed_replay_writes_every_record_once_and_in_order(
    spark: "SparkSession", broker: Broker, fill: Fill, kills: Kills, topic: str, tmp_path: Path
) -> None:
    places = kills(job_driver.REPLAY_PLACES, 2)
    target = f"{topic}-again"
    # A run begins with the slice in which the previous one died, and dies in the next.
    fill(topic, some(2 * job_driver.SLICE_RECORDS * (len(places) + 1)), partitions=2)
    fill(target, partitions=2)
    folder = tmp_path / "table"
    archive(spark, options_of(broker, topic, folder, "parquet")._replace(commit_records=1 << 20))

    for place in places:
        run_until_killed(job_driver, broker.address, "replay", folder, target, place)
    replay(spark, job_driver.replay_options(broker.address, folder, target))

    assert content(broker, target) == content(broker, topic)


@pytest.mark.slow("starts Spark again for each kill")
@pytest.mark.timeout(DRILL_TIMEOUT_S)
def test_a_killed_dedupe_writes_one_of_each_record(
    spark: "SparkSession", broker: Broker, fill: Fill, kills: Kills, topic: str, tmp_path: Path
) -> None:
    places = kills(job_driver.DEDUPE_PLACES, 2)
    target, count = f"{topic}-clean", job_driver.BATCH_RECORDS
    fill(topic, partitions=2)
    fill(target, partitions=2)
    keys: set[bytes] = set()

    def fill_batch(turn: int) -> None:
        """Each key twice, with some from the previous batch."""
        numbers = [turn * count + each // 2 - each % 8 // 7 * count for each in range(count)]
        keys.update(b"k%d" % each for each in numbers)
        fill(
            topic,
            [(n % 2, b"k%d" % key, b"v", [], FIRST_MS + key) for n, key in enumerate(numbers)],
        )

    fill_batch(0)
    for turn, place in enumerate(places, start=1):
        # A run begins with the batch in which the previous one died, and dies in the next.
        fill_batch(turn)
        where = broker.address, "dedupe", tmp_path / "seen", target, place, topic
        run_until_killed(job_driver, *where)
    options = job_driver.dedupe_options(broker.address, tmp_path / "seen", target, topic)
    dedupe(spark, options)

    found = Counter(each.key for each in read_committed(broker.address, target))
    assert found == Counter(keys)
    [_] = (tmp_path / "seen" / "kept").iterdir()  # nothing remains of earlier batches


def test_a_replay_restores_records_in_order_and_once(
    spark: "SparkSession", broker: Broker, fill: Fill, topic: str, tmp_path: Path
) -> None:
    options = options_of(broker, topic, tmp_path / "table", "parquet")
    fill(topic, [*some(999), (1, b"k", b"v", [], -1)], partitions=2)  # the last without a time
    archive(spark, options)
    again = f"{topic}-again"
    fill(again, partitions=2)
    replaying = ReplayOptions(
        options.folder, "parquet", options.bootstrap, again, slice_records=200
    )

    assert replay(spark, replaying).totals["slices"] == 3
    assert replay(spark, replaying).totals["slices_already_written"] == 2

    assert content(broker, again) == content(broker, topic)

    by_key = replaying._replace(
        where="date = '2023-11-15' AND key IS NOT NULL", keeps_partitions=False, topic=topic
    )
    count = replay(spark, by_key).totals["records"]
    assert 0 < count < 1_000
    assert len(content(broker, topic)) == 1_000 + count


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"where": "nothing = 1"}, "condition 'nothing = 1'"),
        ({"table_format": "delta"}, "is not a Delta table"),
        ({"topic": "nowhere"}, "no topic named 'nowhere'"),
    ],
)
def test_an_invalid_replay_is_refused(
    spark: "SparkSession",
    broker: Broker,
    fill: Fill,
    topic: str,
    tmp_path: Path,
    change: dict[str, Any],
    complaint: str,
) -> None:
    options = options_of(broker, topic, tmp_path / "table", "parquet")
    fill(topic, some(10), partitions=2)
    archive(spark, options)
    replaying = ReplayOptions(options.folder, "parquet", options.bootstrap, topic)

    with pytest.raises(PolylogError, match=complaint):
        replay(spark, replaying._replace(**change))


def test_a_dedupe_keeps_one_of_each_record_and_the_next_run_continues(
    spark: "SparkSession", broker: Broker, fill: Fill, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-clean"
    rows: list[Row] = [(0, b"timeless", b"v", [], -1)]
    rows += [(each % 2, b"k%d" % (each % 50), b"v", [], FIRST_MS + each) for each in range(200)]
    rows += [(0, None, b"v", [], FIRST_MS)] * 3  # a record without a key is no duplicate
    fill(topic, rows, partitions=2)
    fill(target, partitions=2)
    options = DedupeOptions(broker.address, topic, target, "key", "1 hour", tmp_path / "seen")

    report = dedupe(spark, options)
    assert report.totals["records_read"] == 204
    assert report.totals["records_written"] == 53
    assert report.totals["duplicates_left_out"] == 150
    assert report.totals["too_old_to_compare"] == 1  # -1 is before every watermark
    fill(topic, [(0, b"k7", b"v", [], FIRST_MS + 300), (1, b"new", b"v", [], FIRST_MS + 301)])
    assert dedupe(spark, options).totals["records_written"] == 1

    found = read_committed(broker.address, target)
    keys = Counter(each.key for each in found)
    expected = {b"k%d" % each: 1 for each in range(50)} | {None: 3, b"new": 1}
    assert keys == Counter(expected)
    for number in (0, 1):
        times = [each.timestamp for each in found if each.partition == number and each.key]
        assert times == sorted(times)


def test_a_dedupe_reports_how_many_records_were_too_old(
    spark: "SparkSession", broker: Broker, fill: Fill, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-clean"
    fill(topic, [(0, b"young", b"v", [], FIRST_MS + 10 * HOUR_MS)], partitions=1)
    fill(target, partitions=1)
    options = DedupeOptions(broker.address, topic, target, "key", "1 hour", tmp_path / "seen")
    dedupe(spark, options)
    fill(topic, [(0, b"old", b"v", [], FIRST_MS)])

    report = dedupe(spark, options)

    assert report.totals["too_old_to_compare"] == 1
    assert not report.is_well


@pytest.mark.jvm
def test_the_command_archives_and_reports(
    broker: Broker, fill: Fill, topic: str, tmp_path: Path
) -> None:
    fill(topic, some(10), partitions=2)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "broker", "pipeline", "archive", topic, str(tmp_path / "t")),
            *("--broker", broker.address, "--compact", "--master", "local[1]", "-o", "json"),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=java_classes.environment(),
    )

    report = json.loads(ended.stdout)
    assert report["totals"]["records"] == 10
    assert [row["records"] for row in report["rows"]] == [5, 5]
