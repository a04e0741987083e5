"""The files of exports: what is in them, so that an export or an import can go on."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from broker.cli.topic.record_rows import row_of_json
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
            row = _object(line, f"{path}, line {number}")
            if row.get("topic") != topic:
                raise ConfigError(f"{path}, line {number}: a record of topic {row.get('topic')!r}")
            found[row["partition"]] = row["offset"] + 1
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
            yield row_of_json(_object(line, what), what)


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
    for batch in pq.ParquetFile(opened).iter_batches(_ROWS):
        for row in batch.to_pylist():
            headers = [(each["name"], each["value"]) for each in row["headers"]]
            yield row["partition"], (row["key"], row["value"], headers, row["timestamp_ms"])


def _object(line: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{what}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{what}: not an object")
    return found
