"""The files of exports: what is in them, so that an export or an import can go on."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from broker.cli.topic.record_rows import number_of, object_of_line, row_of_json
from broker.client.reading import Read
from broker.codec.packages import import_optional
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from broker.cli.topic.writing import Record

_ROWS: Final = 20_000  # of a row group of Parquet


def exported_ends(path: Path, topic: str) -> dict[int, int]:
    """Return the next offset of each partition; a last line that is cut short is cut off.

    Raises:
        ConfigError: the file is no export of the topic.
    """
    found: dict[int, int] = {}
    with path.open("r+b") as opened:
        whole = 0
        for number, line in enumerate(opened, 1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            what = f"{path}, line {number}"
            row = object_of_line(line, what)
            if row.get("topic") != topic:
                raise ConfigError(f"{what}: a record of topic {row.get('topic')!r:.100}")
            partition, offset = (number_of(row, each, what) for each in ("partition", "offset"))
            if partition is None or offset is None:
                raise ConfigError(f"{what}: no partition and offset, so it is no line of an export")
            found[partition] = offset + 1
        opened.truncate(whole)
    return found


def exported_records(path: Path, opened: IO[bytes]) -> Iterator["tuple[int | None, Record]"]:
    """Yield partition and record of each line or row of an export.

    Raises:
        ConfigError: a line is invalid.
    """
    if path.suffix == ".parquet":
        yield from _parquet_records(opened)
        return
    for number, line in enumerate(opened, 1):
        if line.strip():
            what = f"{path}, line {number}"
            yield row_of_json(object_of_line(line, what), what)


def write_parquet(path: Path, records: Iterator[Read]) -> None:
    """Write records as Parquet; the file appears when it is complete."""
    pa = import_optional("pyarrow", "Parquet")
    pq = import_optional("pyarrow.parquet", "Parquet")
    header = pa.struct([("name", pa.binary()), ("value", pa.binary())])
    schema = pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp_ms", pa.int64(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(header), nullable=False),
        ]
    )
    unfinished = path.with_name(f"{path.name}.part")
    with pq.ParquetWriter(str(unfinished), schema, compression="zstd") as writer:
        while rows := list(islice(records, _ROWS)):
            table = [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "offset": each.record.offset,
                    "timestamp_ms": each.record.timestamp,
                    "key": each.record.key,
                    "value": each.record.value,
                    "headers": [
                        {"name": name, "value": value} for name, value in each.record.headers
                    ],
                }
                for each in rows
            ]
            writer.write_table(pa.Table.from_pylist(table, schema=schema))
    unfinished.replace(path)


def _parquet_records(opened: IO[bytes]) -> Iterator["tuple[int | None, Record]"]:
    pq = import_optional("pyarrow.parquet", "Parquet")
    try:
        table = pq.ParquetFile(opened)
    except ValueError as error:  # whose subclasses are pyarrow's
        raise ConfigError(f"not Parquet: {error}") from None
    missing = {"partition", "key", "value", "headers", "timestamp_ms"} - set(
        table.schema_arrow.names
    )
    if missing:
        raise ConfigError(f"no export of a topic: it has no {', '.join(sorted(missing))}")
    for batch in table.iter_batches(_ROWS):
        for row in batch.to_pylist():
            headers = [(each["name"], each["value"]) for each in row["headers"]]
            yield row["partition"], (row["key"], row["value"], headers, row["timestamp_ms"])
