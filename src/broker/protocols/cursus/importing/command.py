"""`broker import cursus`: import a data directory of the original Cursus into a running broker.

    manifest   → topics with their settings
    segments   → records → Produce, as the broker stores what its own clients of Cursus write
               → events of streams → APPEND_STREAM
    snapshots  → SAVE_SNAPSHOT
    __consumer_offsets, journal → OffsetCommit, translated to the offsets here

Records of transactions that were not committed are left out. Members of groups are not imported:
they join again. Access policies are not: they are ACLs here.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from broker._native.protocols.cursus.batch import (
    AGGREGATE_VERSION,
    EPOCH,
    EVENT_TYPE,
    METADATA,
    PRODUCER_ID,
    SCHEMA_VERSION,
    SEQUENCE,
)
from broker.client.connection import Client
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError, ImportFailed
from broker.model.limits import CURSUS_MESSAGE_BYTES_MAX
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import STREAM_SETTINGS
from broker.protocols.cursus.importing import directory, journal
from broker.protocols.cursus.importing.directory import (
    OFFSETS_TOPIC,
    Found,
    Policy,
    TimedRecord,
    read_records,
    read_snapshots,
)
from broker.protocols.cursus.importing.journal import COMMITTING, Outcome
from broker.protocols.cursus.importing.offsets import CommittedOffsets
from broker.protocols.cursus.importing.report import Counts, row_of, text_of
from broker.protocols.cursus.importing.stored import StoredRecord
from broker.protocols.cursus.importing.streams import Connection, StreamImport
from broker.protocols.cursus.importing.visible import Visibility
from broker.protocols.cursus.settings import IDEMPOTENT, PARTITIONER
from broker.protocols.import_command import Imported
from broker.protocols.importing.commits import Commits
from broker.protocols.importing.folder import reading
from broker.protocols.importing.options import wanted
from broker.protocols.importing.report import Damage, Partition, Report
from broker.protocols.importing.target import ImportedRecord, Target

_CLEANUP: Final = "cleanup.policy"
_COMPACT: Final = "compact"


def run(
    folder: Path,
    options: Mapping[str, int],
    connect: Callable[[], Client],
    progress: Callable[[str], None],
) -> Imported:
    """Import; print problems by `progress`.

    Raises:
        ConfigError: the directory has no data of Cursus.
        Unreachable, PeerError: of the broker.
        ImportFailed: a topic cannot accept the records, or the broker refuses them.
    """
    report, counts, asked = Report(progress), Counts(), wanted(options)
    with reading(folder):
        found = _find(folder)
        outcomes, damages = journal.read(folder)
        for each in damages:
            report.add_damage(each)
        with connect() as client, ExitStack() as stack:
            clock = SystemClock()
            target = Target(client, report, asked, clock)
            importing = _Import(target, report, counts, outcomes, stack)
            importing.run(found)
            commits = Commits(client, report, clock, is_dry_run=asked.is_dry_run)
            for group_id, topics in _offsets(found, report, outcomes).items():
                commits.commit(group_id, topics)
    return Imported(
        row_of(report, counts),
        text_of(report, counts),
        report.next_steps("records", is_dry_run=asked.is_dry_run),
    )


def _find(folder: Path) -> Found:
    try:
        found = directory.find(folder)
    except ValueError as error:
        raise ImportFailed(
            f"{folder / directory.MANIFEST} cannot be read: {error}. Repair it, or move it away:"
            " topics then get the partitions that have files, and no settings of their own"
        ) from error
    if not found.segments and not (folder / directory.MANIFEST).exists():
        raise ConfigError(
            f"{folder} has no TOPIC/partition_N_segment_NNN.log and no {directory.MANIFEST}: give"
            " the directory of logs (log_dir) of Cursus"
        )
    return found


def _offsets(
    found: Found, report: Report, outcomes: Mapping[str, Outcome]
) -> dict[str, dict[str, dict[int, int]]]:
    """Return what groups have committed, of topics that are imported."""
    committed = CommittedOffsets()
    for place, files in found.segments.items():
        if place.topic != OFFSETS_TOPIC:
            continue
        for each in read_records(place, files):
            if isinstance(each, Damage):
                report.add_damage(each)
            elif not each.record.marker:
                try:
                    committed.add(each.record.payload)
                except ValueError as error:
                    report.add_problem(
                        f"{OFFSETS_TOPIC}-{place.number}: the record at offset"
                        f" {each.record.offset} cannot be read: {error}"
                    )
    return committed.groups(outcomes.values())


class _Import:
    """One import of topics."""

    def __init__(
        self,
        target: Target,
        report: Report,
        counts: Counts,
        outcomes: Mapping[str, Outcome],
        stack: ExitStack,
    ) -> None:
        self._target = target
        self._report = report
        self._counts = counts
        self._outcomes = outcomes
        self._stack = stack
        self._connection: Connection | None = None  # for streams
        self._keyless: set[str] = set()  # topics that have a record without a key

    def run(self, found: Found) -> None:
        for name, outcome in self._outcomes.items():
            if outcome.state == COMMITTING:
                self._report.add_problem(
                    f"transaction {name!a} is being committed, some of its records may be missing:"
                    " start and stop the original once, which completes it, and import again"
                )
        sizes = {name: policy.partitions for name, policy in found.policies.items()}
        for place in found.segments:
            sizes[place.topic] = max(sizes.get(place.topic, 0), place.number + 1)
        sizes.pop(OFFSETS_TOPIC, None)
        named = {
            name: size
            for name, size in sizes.items()
            if self._target.may_have(Partition(name, size - 1))
        }
        for name, size in named.items():  # all are ready before the first record is written
            policy = found.policies.get(name, Policy())
            self._target.prepare(name, size, size, self._configs(name, policy))
        for place, files in found.segments.items():
            if place.topic in named:
                self._import(place, files, found)
        for name in named:
            self._compact(name, found.policies.get(name, Policy()))
        self._target.check_retention()

    def _configs(self, topic: str, policy: Policy) -> dict[str, str]:
        """Return the settings of a topic that is created."""
        if policy.access != "open":
            self._report.add_problem(
                f"topic {topic} has the access policy {policy.access}, which is not imported: set"
                " ACLs (broker acl)"
            )
        own = {"max.message.bytes": str(CURSUS_MESSAGE_BYTES_MAX)}
        if policy.has_streams:
            return own | {EVENT_SOURCING: "true", **STREAM_SETTINGS}
        if policy.is_idempotent:
            own[IDEMPOTENT] = "true"
        if policy.partitioner != Policy().partitioner:
            own[PARTITIONER] = policy.partitioner
        return own

    def _compact(self, topic: str, policy: Policy) -> None:
        """Have a topic compacted as the original is, once its records are there."""
        if _COMPACT not in policy.cleanup.split(",") or policy.has_streams:
            return
        if topic in self._keyless:
            self._report.add_problem(
                f"topic {topic} is compacted by the original and has records without a key, which"
                " compaction here does not allow: it keeps all records"
            )
        else:
            self._target.alter(topic, _CLEANUP, policy.cleanup)

    # ---- records ---------------------------------------------------------------------------------

    def _import(self, place: Partition, files: list[Path], found: Found) -> None:
        visibility = Visibility(self._outcomes)
        visibility.learn(read_records(place, files))
        records = visibility.only(read_records(place, files))
        if found.policies.get(place.topic, Policy()).has_streams:
            self._import_streams(place, records, found)
        else:
            self._target.write_all(place, self._imported(place.topic, records))
        self._counts.left_out += visibility.left_out

    def _imported(
        self, topic: str, records: Iterator[TimedRecord | Damage]
    ) -> Iterator[ImportedRecord | Damage]:
        for each in records:
            if isinstance(each, Damage):
                yield each
                continue
            record = each.record
            if not record.key:
                self._keyless.add(topic)
            yield ImportedRecord(
                record.offset,
                each.timestamp_ms,
                record.payload,
                record.key or None,
                headers_of(record),
            )

    def _import_streams(
        self, place: Partition, records: Iterator[TimedRecord | Damage], found: Found
    ) -> None:
        if self._connection is None:
            self._connection = self._stack.enter_context(Connection(self._target.client))
        streams = StreamImport(self._target, self._connection, self._report, place)
        streams.append(records)
        if file := found.snapshots.get(place):
            snapshots, damage = read_snapshots(file)
            if damage is not None:
                self._report.add_damage(damage)
            self._counts.snapshots += streams.save(snapshots)


def headers_of(record: StoredRecord) -> tuple[tuple[bytes, bytes | None], ...]:
    """Return the headers that a record has here: what the protocol has, without empty and 0."""
    fields = (
        (PRODUCER_ID, record.producer_id),
        (SEQUENCE, b"%d" % record.sequence if record.sequence else b""),
        (EPOCH, b"%d" % record.epoch if record.epoch else b""),
        (EVENT_TYPE, record.event_type),
        (SCHEMA_VERSION, b"%d" % record.schema_version if record.schema_version else b""),
        (AGGREGATE_VERSION, b"%d" % record.aggregate_version if record.aggregate_version else b""),
        (METADATA, record.metadata),
    )
    return tuple(each for each in fields if each[1])
