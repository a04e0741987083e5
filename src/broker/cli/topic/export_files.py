"""The files of exports: what is in them, so that an export or an import can go on."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from broker.cli.topic.record_rows import number_of, object_of_line, row_of_json
from broker.client.reading import Read
from broker.codec.packages import import_optional
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from broker.cli.topic.writing import Record

_ROWS: Final = 20_000  # of a row group of Parquet
_NOT_READ: Final = ("topic", "offset")  # columns of an export that an import does not use


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
        yield from _parquet_records(path, opened)
        return
    for number, line in enumerate(opened, 1):
        if line.strip():
            what = f"{path}, line {number}"
            yield row_of_json(object_of_line(line, what), what)


def _schema() -> Any:  # noqa: ANN401 - of pyarrow, which may be missing
    pa = import_optional("pyarrow", "Parquet")
    header = pa.struct([("name", pa.binary()), ("value", pa.binary())])
    return pa.schema(
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


def write_parquet(path: Path, records: Iterator[Read]) -> None:
    """Write records as Parquet; the file appears when it is complete."""
    schema = _schema()
    unfinished = path.with_name(f"{path.name}.part")
    try:
        _write_parquet(unfinished, schema, records)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_parquet(file: Path, schema: Any, records: Iterator[Read]) -> None:  # noqa: ANN401
    pa = import_optional("pyarrow", "Parquet")
    pq = import_optional("pyarrow.parquet", "Parquet")
    with pq.ParquetWriter(str(file), schema, compression="zstd") as writer:
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


def _parquet_records(path: Path, opened: IO[bytes]) -> Iterator["tuple[int | None, Record]"]:
    pq = import_optional("pyarrow.parquet", "Parquet")
    expected = [each for each in _schema() if each.name not in _NOT_READ]
    try:
        table = pq.ParquetFile(opened)
        found = {each.name: each.type for each in table.schema_arrow}
        for field in expected:
            if not _is_readable(found.get(field.name), field.type):
                raise ConfigError(
                    f"{path} is no export of a topic: its {field.name} is"
                    f" {found.get(field.name, 'missing')}, expected {field.type}"
                )
        for batch in table.iter_batches(_ROWS, columns=[each.name for each in expected]):
            # Texts become bytes, and large types small ones; what does not fit is an error.
            columns = [batch.column(each.name).cast(each.type).to_pylist() for each in expected]
            for partition, timestamp, key, value, headers in zip(*columns, strict=True):
                pairs = [(each["name"] or b"", each["value"]) for each in headers or ()]
                yield partition, (key, value, pairs, timestamp)
    except (ValueError, TypeError, NotImplementedError, OSError) as error:  # pyarrow's are of these
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} cannot be read as Parquet: {reason}") from None


def _is_readable(found: Any, expected: Any) -> bool:  # noqa: ANN401 - types of pyarrow
    """Return whether values of a type are meant as those of an export are."""
    types = import_optional("pyarrow", "Parquet").types
    if found is None:
        return False
    if types.is_integer(expected):
        return bool(types.is_integer(found))
    if types.is_binary(expected):
        kinds = (types.is_binary, types.is_large_binary, types.is_string, types.is_large_string)
        return any(kind(found) for kind in kinds)
    if types.is_list(expected):
        is_list = types.is_list(found) or types.is_large_list(found)
        return is_list and _is_readable(found.value_type, expected.value_type)
    return types.is_struct(found) and all(
        found.get_field_index(each.name) >= 0
        and _is_readable(found.field(each.name).type, each.type)
        for each in expected
    )
