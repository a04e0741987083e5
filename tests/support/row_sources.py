"""Rows to encode, in every form that an encoder accepts, and the oracle's encoding of them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.oracles import record_batch_oracle as oracle
from tests.oracles.record_batch_oracle import HEADER, Header, Record
from tests.support.batches import records_of

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
INT64 = st.integers(-(2**63), 2**63 - 1)

Fields = tuple[bytes | None, bytes | None, oracle.Headers, int]

contents = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=66)
headers = st.lists(st.tuples(st.text(max_size=4).map(str.encode), contents), max_size=3)
times = st.integers(NOW_MS - 100, NOW_MS + 20_000) | INT64
rows = st.lists(st.tuples(contents, contents, headers, times), max_size=8)
limits = st.integers(500, 900)  # the largest row of these takes some 450 bytes
limits |= st.just(1 << 20)


def expected(
    given_rows: Sequence[Fields],
    limit: int,
    offsets: Sequence[int] | None = None,
    **fields: Any,
) -> list[bytes]:
    """Return the oracle's encoding of the rows."""
    groups: list[list[tuple[int, Fields]]] = []
    size = limit
    for place, row in enumerate(given_rows):
        offset = place if offsets is None else offsets[place]
        record = record_of(row, offset, groups[-1][0] if groups else (offset, row)).encode()
        if size + len(record) > limit or offset - groups[-1][0][0] > 2**31 - 1:
            groups.append([])
            size = HEADER.size
            record = record_of(row, offset, (offset, row)).encode()
        groups[-1].append((offset, row))
        size += len(record)
    return [batch_of(group, **fields) for group in groups]


def record_of(row: Fields, offset: int, first: tuple[int, Fields]) -> Record:
    key, value, its_headers, timestamp = row
    delta = (timestamp - first[1][3] + 2**63) % 2**64 - 2**63
    return Record(delta, offset - first[0], key, value, its_headers)


def batch_of(group: list[tuple[int, Fields]], **fields: Any) -> bytes:
    parts = [record_of(row, offset, group[0]) for offset, row in group]
    base_offset, (_, _, _, base_timestamp) = group[0]
    return Header(
        **{
            "base_offset": base_offset,
            "leader_epoch": -1,
            "last_offset_delta": parts[-1].offset_delta,
            "base_timestamp": base_timestamp,
            "max_timestamp": max(row[3] for _, row in group),
            "record_count": len(parts),
            **fields,
        }
    ).encode(b"".join(part.encode() for part in parts))


def spans_of(given_rows: Sequence[Fields]) -> dict[str, Any]:
    """Return the rows as numpy arrays over one buffer."""
    data = bytearray(b"before")
    columns: dict[str, list[int]] = {}

    def put(name: str, content: bytes | None) -> None:
        columns.setdefault(f"{name}_start", []).append(len(data))
        columns.setdefault(f"{name}_length", []).append(-1 if content is None else len(content))
        data.extend(content or b"")

    ends = []
    for name in ("key", "value", "header_key", "header_value"):
        columns.update({f"{name}_start": [], f"{name}_length": []})
    for key, value, its_headers, _ in given_rows:
        put("key", key)
        put("value", value)
        for its_name, content in its_headers:
            put("header_key", its_name)
            put("header_value", content)
        ends.append(len(columns["header_key_start"]))
    arrays = {name: np.array(column, np.int32) for name, column in columns.items()}
    arrays["header_end"] = np.array(ends, np.int32)
    arrays["timestamp"] = np.array([row[3] for row in given_rows], np.int64)
    return {**arrays, "data": bytes(data)}


def table_of(given_rows: Sequence[Fields], content: pa.DataType | None = None) -> pa.RecordBatch:
    """Return the rows as Arrow arrays."""
    kind = content or pa.binary()
    lists = [
        [{"key": name.decode(), "value": value} for name, value in its_headers]
        for _, _, its_headers, _ in given_rows
    ]
    return pa.record_batch(
        {
            "key": pa.array([row[0] for row in given_rows], kind),
            "value": pa.array([row[1] for row in given_rows], kind),
            "topic": pa.array(["ignored"] * len(given_rows), pa.string()),
            "headers": pa.array(lists, HEADERS),
            "timestamp": pa.array([row[3] for row in given_rows], pa.timestamp("ms")),
        }
    )


def contents_of(batches: Iterable[bytes]) -> list[tuple[Any, ...]]:
    return [record for batch in batches for record in records_of(batch)]
