"""Reads and writes the two files in which V1's original server keeps its groups, in its format.

    groups.json   {"g": {"topic": "t", "generation": 2, "assignor": "round_robin",
                         "member_order": ["c1"], "assignments": {"c1": [0, 1]},
                         "members": [{"consumer_id": "c1", "last_heartbeat_unix_ms": 1}]}}
    offsets.json  {"g": {"t": {"0": 5}}}        the next offset to read, by topic and partition

    v1-import.unfinished    ours: exists during the import, while they must not be overwritten
    *.json.imported         the original files after the import, including what was not imported

Each is one line. Empty lists are null where that server writes null. An invalid file counts as
missing, with a warning, as in that server; writes are atomic.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.limits import V1_FILE_BYTES_MAX

GROUPS_FILE = "groups.json"
OFFSETS_FILE = "offsets.json"
UNFINISHED_FILE = "v1-import.unfinished"
IMPORTED_SUFFIX = ".imported"

Offsets: TypeAlias = Mapping[str, Mapping[int, int]]  # of one group: topic, partition, offset

_log = logging.getLogger(__name__)
_Content = TypeVar("_Content")
_ValueT = TypeVar("_ValueT")


class V1Group(NamedTuple):
    """A group of groups.json."""

    topic: str
    generation: int
    assignor: str
    members: Mapping[str, int]  # in join order; wall-clock ms of the last heartbeat
    assignments: Mapping[str, tuple[int, ...]]  # by member; some may be missing


# ---- files ---------------------------------------------------------------------------------------


def read_groups(folder: Path) -> dict[str, V1Group] | None:
    """Return the groups by name; None when the file is missing or invalid."""
    return _read(folder / GROUPS_FILE, parse_groups)


def read_offsets(folder: Path) -> dict[str, Offsets] | None:
    """Return the offsets by group; None when the file is missing or invalid."""
    return _read(folder / OFFSETS_FILE, parse_offsets)


def write(folder: Path, groups: Mapping[str, V1Group], offsets: Mapping[str, Offsets]) -> None:
    """Write both files; StorageError when that fails."""
    file_ops.write_file_atomic(folder / GROUPS_FILE, format_groups(groups))
    file_ops.write_file_atomic(folder / OFFSETS_FILE, format_offsets(offsets))


def set_aside(folder: Path) -> None:
    """Rename the files that exist to `.imported`; StorageError when that fails."""
    names = [name for name in (GROUPS_FILE, OFFSETS_FILE) if (folder / name).exists()]
    for name in names:
        file_ops.rename(folder / name, folder / f"{name}{IMPORTED_SUFFIX}")
    if names:
        file_ops.sync_folder(folder)


def _read(file: Path, parse: Callable[[bytes], _Content]) -> _Content | None:
    try:
        if file_ops.size(file) > V1_FILE_BYTES_MAX:
            raise ValueError(f"more than {V1_FILE_BYTES_MAX} bytes")
        return parse(file_ops.read_file(file))
    except FileNotFoundError:
        return None
    except (ValueError, StorageError) as error:
        _log.warning("not read, taken as missing: file=%s error=%s", file, error)
        return None


# ---- text ----------------------------------------------------------------------------------------


def format_groups(groups: Mapping[str, V1Group]) -> bytes:
    """Return the text of groups.json."""
    text = _joined((each, _text(_group_fields(groups[each]))) for each in sorted(groups))
    return f"{text}\n".encode()


def format_offsets(offsets: Mapping[str, Offsets]) -> bytes:
    """Return the text of offsets.json."""
    text = _joined((each, _offsets_text(offsets[each])) for each in sorted(offsets))
    return f"{text}\n".encode()


def _offsets_text(topics: Offsets) -> str:
    return _joined((topic, _text(_by_text(topics[topic]))) for topic in sorted(topics))


def _joined(entries: Iterable[tuple[str, str]]) -> str:
    """Return one object, encoded entry by entry so that other threads can run in between."""
    shown = (f"{_text(name)}:{text}" for name, text in entries)
    return f"{{{','.join(shown)}}}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _group_fields(group: V1Group) -> dict[str, object]:
    assignments = {each: list(group.assignments[each]) for each in sorted(group.assignments)}
    return {
        "topic": group.topic,
        "generation": group.generation,
        "assignor": group.assignor,
        "member_order": list(group.members) or None,
        "assignments": assignments or None,
        "members": [
            {"consumer_id": each, "last_heartbeat_unix_ms": heard_ms}
            for each, heard_ms in group.members.items()
        ],
    }


def _by_text(offsets: Mapping[int, int]) -> dict[str, int]:
    by_text = ((str(partition), offset) for partition, offset in offsets.items())
    return dict(sorted(by_text))


def parse_groups(data: bytes) -> dict[str, V1Group]:
    """Return the groups of a groups.json.

    Raises:
        ValueError: it is invalid.
    """
    return {name: _parse_group(_object(each)) for name, each in _object(_decoded(data)).items()}


def parse_offsets(data: bytes) -> dict[str, Offsets]:
    """Return the offsets of an offsets.json.

    Raises:
        ValueError: it is invalid.
    """
    return {
        group_id: {
            topic: {_decimal(number): _of(int, offset) for number, offset in _object(each).items()}
            for topic, each in _object(topics).items()
        }
        for group_id, topics in _object(_decoded(data)).items()
    }


def _parse_group(fields: dict[str, Any]) -> V1Group:
    heard = {
        _of(str, each.get("consumer_id")): _of(int, each.get("last_heartbeat_unix_ms"))
        for each in map(_object, _list(fields.get("members")))
    }
    order = [_of(str, each) for each in _list(fields.get("member_order"))]
    assignments = {
        member: tuple(_of(int, number) for number in _list(numbers))
        for member, numbers in _object(fields.get("assignments") or {}).items()
    }
    return V1Group(
        _of(str, fields.get("topic")),
        _of(int, fields.get("generation")),
        _of(str, fields.get("assignor")),
        {each: heard[each] for each in (*order, *heard) if each in heard},
        assignments,
    )


def _decoded(data: bytes) -> object:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _object(value: object) -> dict[str, Any]:
    return _of(dict, value)


def _list(value: object) -> list[Any]:
    return [] if value is None else _of(list, value)


def _of(kind: type[_ValueT], value: object) -> _ValueT:
    if type(value) is not kind:  # not isinstance: true is not a number here
        raise ValueError(f"{kind.__name__} expected instead of {str(value)[:80]!r}")
    return value


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text[:80]!r} is not a partition")
    return int(text)
