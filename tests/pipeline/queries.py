"""A streaming query with a checkpoint, which can be run repeatedly."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Query:
    """A query that appends the offsets that it reads to files."""

    def __init__(self, spark: "SparkSession", options: dict[str, str], folder: Path) -> None:
        self.spark = spark
        self.options = options | {"startingOffsets": "earliest"}
        self.folder = folder

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def start(
        self, *, available_now: bool, source: str = "polylog", **more: str
    ) -> "StreamingQuery":
        """Start it, from its checkpoint if there is one."""
        reader = self.spark.readStream.format(source)
        for name, value in (
            self.options | {k.replace("__", "."): v for k, v in more.items()}
        ).items():
            reader = reader.option(name, value)
        writer = reader.load().select("topic", "partition", "offset").coalesce(1)
        stream = writer.writeStream.format("json").option("path", str(self.folder / "rows"))
        stream = stream.option("checkpointLocation", str(self.checkpoint))
        if available_now:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime="50 milliseconds").start()

    def run(self, *, source: str = "polylog", **more: str) -> list[int]:
        """Read everything available; return how many rows each trigger had."""
        query = self.start(available_now=True, source=source, **more)
        assert query.awaitTermination(60)
        return [each["numInputRows"] for each in query.recentProgress]

    def rows(self) -> "DataFrame":
        """Return everything that was read."""
        schema = "topic string, partition int, offset bigint"
        return self.spark.read.schema(schema).json(str(self.folder / "rows"))

    def places(self) -> list[tuple[int, int]]:
        """Return partition and offset of every row, sorted, with duplicates."""
        return sorted((row["partition"], row["offset"]) for row in self.rows().collect())

    def offsets(self) -> Any:
        """Return the last offsets in the checkpoint."""
        files = (each for each in (self.checkpoint / "offsets").iterdir() if each.name.isdigit())
        newest = max(files, key=lambda file: int(file.name))
        return json.loads(newest.read_text().splitlines()[-1])
