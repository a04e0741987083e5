"""What commands print: rows with named fields, in the format that -o selects.

    table   columns for people; the default on a terminal
    json    one document: a list, or an object of commands that print one thing
    jsonl   an object per line, printed as they come; the default in a pipe
    yaml    the same as json, for people who compare files
    csv     a header and lines; lists and objects are JSON in their cell
    name    the first field of each row, for `xargs`

A report has rows, totals and problems: documents (json, yaml) are an object of the three, a table
has them below each other, other formats have the rows and leave the rest to stderr.

The names of fields are those of the row's NamedTuple: they are documented and do not change.
Only tables show sizes and times in a form for people.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from broker.cli.tables import print_table
from broker.model.printable import printable_lines

if TYPE_CHECKING:
    from broker.model.report import Report

FORMATS: Final = ("table", "json", "jsonl", "yaml", "csv", "name")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./:-]*")  # a text that YAML needs no quotes for
_NOT_PLAIN: Final = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT: Final = 1024

Row: TypeAlias = NamedTuple  # whose class documents each field in "Attributes"


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return a value as JSON knows it: rows are objects."""
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


class Output:
    """Writes rows to a stream in one format.

    Attributes:
        format: of FORMATS.
        stream: where rows go.
    """

    def __init__(
        self,
        format_: str,
        fields: Sequence[str],
        columns: Sequence[str],
        *,
        is_single: bool = False,
        stream: IO[str] | None = None,
    ) -> None:
        """Keep the fields of a row, and those that a table shows."""
        self.format = format_
        self.stream = sys.stdout if stream is None else stream
        self._fields = tuple(fields)
        self._columns = tuple(columns)
        self._is_single = is_single
        self._count = 0
        # JSON is JSON in every locale; in UTF-8 it has the characters that people read.
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self._is_ascii = encoding.lower().replace("_", "-") not in {"utf-8", "utf8"}
        self._cells: list[list[str]] = []
        self._nested: dict[str, list[dict[str, Any]]] = {}  # rows of the only row, for a table

    @property
    def has_rows(self) -> bool:
        """Whether a row was written."""
        return self._count > 0

    def write(self, row: Row) -> None:
        """Write a row; a table keeps it until `close`, because its columns must fit."""
        values = plain(row)
        getattr(self, f"_{self.format}")(values)
        self._count += 1

    def use(self, row: type[Row]) -> None:
        """Expect rows of another class, of which there is none yet."""
        self._fields = self._columns = row._fields

    def write_report(self, report: "Report") -> None:
        """Write a report; nothing comes after it. Without rows its totals are the only one."""
        rows = [dict(zip(report.columns, map(plain, each), strict=True)) for each in report.rows]
        problems = list(report.problems)
        if self.format in {"json", "yaml"}:
            document = {"rows": rows, "totals": plain(report.totals), "problems": problems}
            self._is_single = True
            getattr(self, f"_{self.format}")(document)
            self._count += 1
            return
        if self.format == "table":
            self._write_report_table(report, rows)
            return
        if not report.columns:
            rows, self._fields = [plain(report.totals)], tuple(report.totals)
        for each in rows:
            getattr(self, f"_{self.format}")(each)
            self._count += 1
        if report.columns:
            print(*_total_lines(report.totals), sep="\n", file=sys.stderr)
        for problem in problems:
            print(f"broker: {printable_lines(problem)}", file=sys.stderr)

    def _write_report_table(self, report: "Report", rows: list[dict[str, Any]]) -> None:
        shown = [
            name
            for name in report.columns
            if name not in report.unless_zero or any(each[name] for each in rows)
        ]
        if rows:
            cells = [[_cell(name, each[name]) for name in shown] for each in rows]
            print_table(shown, cells, self.stream, is_single=False)
            self._print("")
        for line in _total_lines(report.totals):
            self._print(line)
        for each in report.problems:
            self._print(f"problem: {printable_lines(each)}")

    def flush(self) -> None:
        """Let readers see what was written; tables are written by `close`."""
        self.stream.flush()

    def close(self) -> None:
        """Write what comes after the last row."""
        if self.format == "json" and not self._is_single:
            self._print("\n]" if self._count else "[]")
        elif self.format == "yaml" and not self._count:
            self._print("{}" if self._is_single else "[]")
        elif self.format == "csv" and not self._count:
            self._header()
        elif self.format == "table" and self._cells:
            shown = [each for each in self._columns if each not in self._nested]
            print_table(shown, self._cells, self.stream, is_single=self._is_single)
            for rows in self._nested.values():
                self._print("")
                cells = [[_cell(name, each[name]) for name in each] for each in rows]
                print_table(tuple(rows[0]), cells, self.stream, is_single=False)
            self._cells, self._nested = [], {}
        self.stream.flush()

    def end_round(self) -> None:
        """Write what comes after the rows of a round; those of the next one follow."""
        self.close()
        self._count = 0
        if self.format == "table":
            self._print("")

    def _json(self, values: dict[str, Any]) -> None:
        text = json.dumps(values, ensure_ascii=self._is_ascii)
        if self._is_single:
            self._print(text)
        else:
            self.stream.write(("[\n" if not self._count else ",\n") + text)

    def _jsonl(self, values: dict[str, Any]) -> None:
        self._print(json.dumps(values, ensure_ascii=self._is_ascii))

    def _yaml(self, values: dict[str, Any]) -> None:
        lines = _yaml_lines(values if self._is_single else [values], 0)
        self._print("\n".join(lines))

    def _csv(self, values: dict[str, Any]) -> None:
        if not self._count:
            self._header()
        self._print(",".join(_csv_cell(each) for each in values.values()))

    def _header(self) -> None:
        self._print(",".join(self._fields))

    def _name(self, values: dict[str, Any]) -> None:
        self._print(_text(next(iter(values.values()))))

    def _table(self, values: dict[str, Any]) -> None:
        if self._is_single:
            self._nested = {
                name: each
                for name, each in values.items()
                if isinstance(each, list) and each and isinstance(each[0], dict)
            }
        shown = [each for each in self._columns if each not in self._nested]
        self._cells.append([_cell(name, values[name]) for name in shown])

    def _print(self, text: str) -> None:
        self.stream.write(text + "\n")


def _total_lines(totals: dict[str, Any]) -> Iterable[str]:
    for name, value in totals.items():
        yield f"{name.replace('_', ' ')}: {_cell(name, plain(value))}"


def size_text(size: float) -> str:
    """Return a size in bytes for people."""
    for unit in _UNITS:
        if size < _UNIT or unit == _UNITS[-1]:
            break
        size /= _UNIT
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"  # noqa: PLR2004


def time_text(timestamp_ms: int) -> str:
    """Return a time in milliseconds since 1970 for people, in UTC."""
    from datetime import UTC, datetime  # noqa: PLC0415 - not needed by most formats

    try:
        when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cell(name: str, value: Any) -> str:  # noqa: ANN401 - any value of a row
    # Clients choose many names: they do not steer the terminal of whoever looks at them.
    return printable_lines(_shown(name, value))


def _shown(name: str, value: Any) -> str:  # noqa: ANN401, PLR0911 - a kind of value each
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith(("_bytes", "bytes")):
        return size_text(value)
    if isinstance(value, int) and name.endswith("timestamp_ms"):
        return time_text(value)
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ",".join(map(_text, value)) or "-"
    if isinstance(value, dict) and not any(
        isinstance(each, dict | list) for each in value.values()
    ):
        return " ".join(f"{key}={_text(each)}" for key, each in value.items()) or "-"
    return _text(value)


def _text(value: Any) -> str:  # noqa: ANN401 - any value of a row
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _csv_cell(value: Any) -> str:  # noqa: ANN401 - any value of a row
    # Not by the csv module: before Python 3.13 it leaves a carriage return without quotes if lines
    # end with a newline only, and a reader takes it for the end of a line.
    text = "" if value is None else _text(value)
    if any(each in text for each in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _yaml_lines(value: Any, depth: int) -> Iterable[str]:  # noqa: ANN401 - any value of a row
    """Yield the lines of a list or an object that is not empty."""
    indent = "  " * depth
    pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    for key, each in pairs:
        head = "-" if key is None else f"{_yaml_scalar(key)}:"
        if not isinstance(each, dict | list) or not each:
            yield f"{indent}{head} {_yaml_scalar(each)}"
        elif key is None:
            first, *others = _yaml_lines(each, depth + 1)
            yield f"{indent}- {first.lstrip()}"
            yield from others
        else:
            yield indent + head
            yield from _yaml_lines(each, depth + 1)


def _yaml_scalar(value: Any) -> str:  # noqa: ANN401 - any value of a row
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and not value.endswith(":")
    if is_plain and value.lower() not in _NOT_PLAIN:
        return str(value)
    return json.dumps(value, ensure_ascii=True)
