"""The identity of a query, a batch and a task."""

import pytest

from broker.model.errors import ConfigError
from broker.pipeline.sink.identity import BATCH_ID, QUERY_ID, Batch, batch_of
from broker.pipeline.sink.options import SinkOptions

COLUMNS = {"value": "binary"}
PROPERTIES = {QUERY_ID: "q", BATCH_ID: "7", "spark.sql.shuffle.partitions": "4"}


def options(*, is_stream: bool = False, **more: str) -> SinkOptions:
    needed = {"kafka.bootstrap.servers": "127.0.0.1:1", "delivery": "exactly-once"}
    return SinkOptions.of(needed | more, is_stream=is_stream)


def stream_batch(properties: dict[str, str], columns: dict[str, str] | None = None) -> Batch:
    return batch_of(
        options(is_stream=True, tasks="4"), columns or COLUMNS, properties.get, is_stream=True
    )


def test_the_batch_id_of_a_stream_is_sparks() -> None:
    batch = stream_batch(PROPERTIES)

    assert (batch.query, batch.number, batch.tasks) == ("q", 7, 4)


def test_a_batch_job_is_identified_by_its_write_id() -> None:
    batch = batch_of(options(writeId="w"), COLUMNS, lambda _: None, is_stream=False)
    later = batch_of(options(writeId="w", writeBatch="3"), COLUMNS, lambda _: None, is_stream=False)

    assert (batch.query, batch.number, batch.tasks) == ("w", 0, None)
    assert later == batch._replace(number=3)


@pytest.mark.parametrize("missing", [QUERY_ID, BATCH_ID])
def test_a_stream_whose_properties_are_missing_is_refused(missing: str) -> None:
    left = {name: value for name, value in PROPERTIES.items() if name != missing}

    with pytest.raises(ConfigError, match=missing):
        stream_batch(left)


def test_a_batch_job_without_write_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="writeId"):
        batch_of(options(), COLUMNS, PROPERTIES.get, is_stream=False)


def test_another_setting_or_column_makes_another_plan() -> None:
    plans = {
        stream_batch(PROPERTIES).plan,
        stream_batch(PROPERTIES | {BATCH_ID: "8", "spark.app.name": "other"}).plan,
        stream_batch(PROPERTIES | {"spark.sql.shuffle.partitions": "5"}).plan,
        stream_batch(PROPERTIES, COLUMNS | {"key": "binary"}).plan,
    }

    assert len(plans) == 3  # neither the batch nor the name of the program counts


def test_a_query_may_move_to_another_cluster_but_not_to_another_number_of_local_cores() -> None:
    def plan(master: str) -> str:
        return stream_batch(PROPERTIES | {"spark.master": master}).plan

    assert plan("spark://one:7077") == plan("spark://two:7077") == plan("yarn")
    assert len({plan("local[2]"), plan("local[4]"), plan("yarn")}) == 3
