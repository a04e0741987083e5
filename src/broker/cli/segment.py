"""`broker segment COMMAND`: the contents and the integrity of segment files."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker.cli.reporting import Parser, add_output, print_progress, print_report
from broker.model.clock import Clock, SystemClock
from broker.model.errors import CodecError, StorageError
from broker.model.limits import PROGRESS_MS
from broker.model.report import Report
from broker.segments import digest_manifest, verification
from broker.segments.integrity import UNDETECTABLE, Verdict
from broker.segments.verification import LocatedSegment

COLUMNS = (
    "segment",
    "bytes",
    "batches",
    "records",
    "first_offset",
    "next_offset",
    "gaps",
    "digest",
    "xxh3",
    "damages",
    "index_errors",
    "unwritten_bytes",
)
_OPTIONAL_COLUMNS = frozenset({"gaps", "damages", "index_errors", "unwritten_bytes"})
_INDEXES = ("offset index", "time index", "index of aborted transactions")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code: 1 if damage was found."""
    parser = Parser(prog="broker segment")
    commands = parser.add_commands()
    verify = commands.add_parser(
        "verify",
        help="check every byte of segments",
        description="Check every byte of segments: CRCs, the order of offsets and leader epochs,"
        " the digest that was recorded when a segment was closed or compacted, and the three"
        " indexes against the log. No broker is needed; if one is running, the active segment is"
        " checked up to its last whole batch. The exit code is 1 if damage is found.",
    )
    verify.add_argument(
        "--manifest",
        type=Path,
        metavar="FILE",
        help="write the XXH3 of every closed segment to this file, in the format of xxhsum -c",
    )
    verify.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with a file written by --manifest"
    )
    add_output(verify)
    verify.set_defaults(run=_verify)
    dump = commands.add_parser(
        "dump",
        help="show the batches or records of segments",
        description="Show the batches of segments, or their records, one per line. Damage is shown"
        " with its position; the exit code is 1 then. Keys and values are shown as text if they"
        " are UTF-8, otherwise as base64.",
    )
    dump.add_argument("--records", action="store_true", help="show records instead of batches")
    dump.add_argument(
        "-o", "--output", choices=("table", "jsonl"), default="table", help="output format"
    )
    dump.set_defaults(run=_dump)
    for command in (verify, dump):
        command.add_argument(
            "paths",
            type=Path,
            nargs="+",
            metavar="PATH",
            help="a segment (.log), a partition's folder or a data directory",
        )
    parsed = parser.parse_args(arguments)
    exit_code: int = parsed.run(parsed)
    return exit_code


def _dump(parsed: argparse.Namespace) -> int:
    from broker.cli import segment_dump  # noqa: PLC0415 - verify does not need the codec

    places = [place for path in parsed.paths for place in verification.find(path)]
    return segment_dump.run(places, parsed.output, has_records=parsed.records)


def _verify(parsed: argparse.Namespace) -> int:
    places = [place for path in parsed.paths for place in verification.find(path)]
    expected = None if parsed.against is None else digest_manifest.read(parsed.against)
    progress = _Progress(places, SystemClock())
    rows, problems, gone = [], [], 0
    closed: dict[str, int] = {}
    undigested = bytes_read = 0
    for place in places:
        try:
            found = verification.verify(place, progress.add)
        except (StorageError, CodecError) as error:
            problems.append(f"{place.name}: {error}")
            continue
        if found is None:
            gone += 1
            continue
        undigested += found.recorded is None
        bytes_read += found.size
        if place.end_offset >= 0:
            closed[place.name] = found.xxh3
        rows.append(_row(place, found))
        problems += _problems(place, found)
    progress.end()
    if expected is not None:
        problems += _differences(expected, closed)
    if parsed.manifest is not None:
        digest_manifest.write(parsed.manifest, closed)
    totals = {
        "segments": len(rows),
        "bytes": bytes_read,
        "gone": gone,
        "without_digest": undigested,
        "undetectable_there": " and ".join(UNDETECTABLE) if undigested else "nothing",
    }
    return print_report(Report(COLUMNS, rows, totals, problems, _OPTIONAL_COLUMNS), parsed.output)


def _row(place: LocatedSegment, found: Verdict) -> tuple[str | int, ...]:
    recorded = found.recorded
    is_same = recorded is not None and (recorded.xxh3, recorded.size) == (found.xxh3, found.size)
    return (
        place.name,
        found.size,
        found.batches,
        found.records,
        found.first_offset,
        found.next_offset,
        found.gaps,
        "none" if recorded is None else "right" if is_same else "differs",
        f"{found.xxh3:016x}",
        len(found.damages),
        sum(found.index_errors),
        found.reserved_bytes + found.tail_bytes,
    )


def _problems(place: LocatedSegment, found: Verdict) -> Iterator[str]:
    for each in found.damages:
        yield (
            f"{place.name}: bytes {each.position} to {each.end_position}, offsets {each.offset} to"
            f" {each.end_offset}: {each.reason}"
        )
    for index, wrong in zip(_INDEXES, found.index_errors, strict=True):
        if wrong:
            yield f"{place.name}: {wrong} entries of its {index} do not match a batch"


def _differences(expected: dict[str, int], found: dict[str, int]) -> Iterator[str]:
    for name, xxh3 in expected.items():
        if name not in found:
            yield f"{name}: in the manifest, but no closed segment here"
        elif found[name] != xxh3:
            yield f"{name}: XXH3 {found[name]:016x}, {xxh3:016x} in the manifest"


class _Progress:
    """Prints the progress of a long verification on stderr, every PROGRESS_MS."""

    def __init__(self, places: Sequence[LocatedSegment], clock: Clock) -> None:
        self._places = places
        self._clock = clock
        self._bytes = 0
        self._began_ms = self._printed_ms = clock.monotonic_ms()

    def add(self, size: int) -> None:
        self._bytes += size
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._printed_ms >= PROGRESS_MS:
            self._printed_ms = now_ms
            self._print(now_ms)

    def end(self) -> None:
        if self._printed_ms > self._began_ms:
            self._print(self._clock.monotonic_ms())

    def _print(self, now_ms: int) -> None:
        rate = self._bytes / max(now_ms - self._began_ms, 1) / 1e6
        print_progress(
            f"{self._bytes / 1e9:.2f} GB of {len(self._places)} segments checked, {rate:.2f} GB/s"
        )
