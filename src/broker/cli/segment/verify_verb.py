"""`broker segment verify`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.reporting import print_progress
from broker.model.clock import Clock, SystemClock
from broker.model.errors import CodecError, StorageError
from broker.model.limits import PROGRESS_MS
from broker.model.report import Report
from broker.segments import digest_manifest, verification
from broker.segments.integrity import UNDETECTABLE, Verdict
from broker.segments.verification import LocatedSegment

_UNLESS_ZERO = frozenset({"gaps", "damages", "index_errors", "unwritten_bytes"})
_INDEXES = ("offset index", "time index", "index of aborted transactions")


class VerifiedSegment(NamedTuple):
    """A segment.

    Attributes:
        segment: path of its log, relative to the given one.
        bytes: that were read.
        batches: in it.
        records: in these.
        first_offset: of its first batch.
        next_offset: after its last batch.
        gaps: between offsets, as compaction leaves them.
        digest: none, right, or differs: what was recorded when it was closed or compacted.
        xxh3: of its bytes, 16 hexadecimal digits.
        damages: damaged ranges.
        index_errors: entries of its indexes that do not match a batch.
        unwritten_bytes: behind its last whole batch, in an active segment.
    """

    segment: str
    bytes: int
    batches: int
    records: int
    first_offset: int
    next_offset: int
    gaps: int
    digest: str
    xxh3: str
    damages: int
    index_errors: int
    unwritten_bytes: int


@verb(
    VerifiedSegment,
    is_local=True,
    totals={
        "segments": "that were checked",
        "bytes": "that were read",
        "gone": "segments that a running broker has deleted meanwhile",
        "without_digest": "segments for which no digest is recorded",
        "undetectable_there": "fields whose damage cannot be noticed without a digest",
    },
    examples=(
        "broker segment verify data",
        "broker segment verify data/orders-0 -o json",
        "broker segment verify data --manifest sums",
    ),
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the XXH3 of every closed segment to this file, in the format of xxhsum -c.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Compare with a file written by --manifest.",
)
def command(
    session: Session, paths: tuple[Path, ...], manifest: Path | None, against: Path | None
) -> None:
    """Check every byte of segments; the exit code is 1 if damage is found.

    PATH is a segment (.log), a partition's folder or a data directory. Checked are CRCs, the order
    of offsets and leader epochs, the digest that was recorded when a segment was closed or
    compacted, and the three indexes against the log. No broker is needed; if one is running, the
    active segment is checked up to its last whole batch.
    """
    session.report(_verified(paths, manifest, against))


def _verified(paths: Sequence[Path], manifest: Path | None, against: Path | None) -> Report:
    places = [place for path in paths for place in verification.find(path)]
    expected = None if against is None else digest_manifest.read(against)
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
    if manifest is not None:
        digest_manifest.write(manifest, closed)
    totals = {
        "segments": len(rows),
        "bytes": bytes_read,
        "gone": gone,
        "without_digest": undigested,
        "undetectable_there": " and ".join(UNDETECTABLE) if undigested else "nothing",
    }
    return Report(VerifiedSegment._fields, rows, totals, problems, _UNLESS_ZERO)


def _row(place: LocatedSegment, found: Verdict) -> VerifiedSegment:
    recorded = found.recorded
    is_same = recorded is not None and (recorded.xxh3, recorded.size) == (found.xxh3, found.size)
    return VerifiedSegment(
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
