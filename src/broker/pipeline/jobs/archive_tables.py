"""The tables of an archive: their files, and the next offset of each partition.

Delta: a commit adds the files and the next offset of each partition. The offsets are transactions
of Delta's protocol: application id `polylog:<topic id>:<partition>`, version = offset. Delta
readers of any engine support both. Compaction removes files that no commit names by their age.

Files are durable before a commit names them (see archive_files), and a commit is durable before it
is reported: everything in a report survives a power cut.

Parquet: a folder that any Parquet reader can read. Its commits are `_polylog/<number>.json`:

    {"version": 1, "topic": …, "topic_id": …, "staging": folder, "added": [path…],
     "removed": [path…], "next_offsets": {"0": n}}

    files in _polylog/<staging> ── commit written ── old files removed, new ones moved to their
    final paths ── staging removed

A commit takes effect when its file exists; if the process is killed before all files are moved, the
next open of the table moves the rest. Readers never see a partial file, but they may see a part of
a commit's files, and during a compaction some records are missing for a moment. Use Delta if
readers need atomic commits.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from broker._native.kernel import file_ops
from broker.client.metadata import Topic
from broker.codec.packages import import_optional
from broker.model.errors import ConfigError
from broker.pipeline.jobs.archive_files import PARQUET, SCHEMA, ArchivedFile, sync_folders
from broker.pipeline.limits import ARCHIVE_ORPHAN_HOURS

if TYPE_CHECKING:
    from deltalake import DeltaTable as Delta

_PARTITIONED_BY: Final = "date"
_COMMITS: Final = "_polylog"
_DELTA_COMMITS: Final = "_delta_log"
_VERSION: Final = 1
_SMALL: Final = 0.5  # of the target size: smaller files are merged


def _check_topic(folder: Path, topic: Topic, name: str, topic_id: str) -> None:
    if (name, topic_id) != (topic.name, topic.topic_id):
        again = " (it was deleted and recreated)" if name == topic.name else ""
        raise ConfigError(
            f"{folder} is the archive of topic {name!r} with id {topic_id}, not of {topic.name!r}"
            f" with id {topic.topic_id}{again}: give another folder"
        )


class DeltaTable:
    """A Delta Lake table, opened for one topic; with None for operations that need no topic."""

    def __init__(self, folder: Path, topic: Topic | None) -> None:
        """Open or create the table."""
        self.folder = folder
        self.topic = topic
        delta = import_optional("deltalake", "a Delta table")
        if not delta.DeltaTable.is_deltatable(str(folder)):
            if topic is None:
                raise ConfigError(f"{folder} is not a Delta table")
            if folder.exists() and any(folder.iterdir()):
                raise ConfigError(f"{folder} has files in it, but no Delta table")
            folder.mkdir(parents=True, exist_ok=True)
            fields = SCHEMA.append(pa.field(_PARTITIONED_BY, pa.date32()))
            delta.DeltaTable.create(
                str(folder),
                schema=delta.Schema.from_arrow(fields),
                partition_by=[_PARTITIONED_BY],
                name=topic.name,
                description=json.dumps({"topic": topic.name, "topic_id": topic.topic_id}),
            )
            self._sync(0)
            file_ops.sync_folder(folder)
            file_ops.sync_folder(folder.absolute().parent)
        self._delta: Delta = delta.DeltaTable(str(folder))
        if topic is not None:
            self._check_description(topic)

    def _check_description(self, topic: Topic) -> None:
        try:
            found = json.loads(self._delta.metadata().description or "")
            name, topic_id = found["topic"], found["topic_id"]
        except (ValueError, TypeError, KeyError):
            raise ConfigError(
                f"{self.folder} is a Delta table, but not an archive of a topic"
            ) from None
        _check_topic(self.folder, topic, name, topic_id)

    def next_offset(self, partition: int) -> int | None:
        """Return the next offset of a partition; None: the table has nothing of it."""
        return self._delta.transaction_version(self._application(partition))

    def _application(self, partition: int) -> str:
        assert self.topic is not None, "opened without a topic"
        return f"polylog:{self.topic.topic_id}:{partition}"

    def staging(self, name: str) -> Path:  # noqa: ARG002 - no commit names the files yet
        """Return the folder under which new files are written, here to their final paths."""
        return self.folder

    def commit(
        self, files: Sequence[ArchivedFile], next_offsets: Mapping[int, int], now_ms: int
    ) -> None:
        """Add files of the staging folder and set the next offsets, atomically.

        Raises:
            ConfigError: another process has committed since the table was opened.
            StorageError: the disk has failed.
        """
        delta = import_optional("deltalake", "a Delta table")
        actions = [
            import_optional("deltalake.transaction", "a Delta table").AddAction(
                each.path, each.size, {_PARTITIONED_BY: each.date}, now_ms, True, _statistics(each)
            )
            for each in files
        ]
        transactions = [
            delta.Transaction(self._application(partition), offset, now_ms)
            for partition, offset in next_offsets.items()
        ]
        try:
            self._delta.create_write_transaction(
                actions,
                "append",
                self._delta.schema(),
                partition_by=[_PARTITIONED_BY],
                # A retry would commit the same offsets again after another archive of the topic.
                commit_properties=delta.CommitProperties(
                    max_commit_retries=0, app_transactions=transactions
                ),
            )
        except import_optional("deltalake.exceptions", "a Delta table").CommitFailedError as error:
            raise ConfigError(
                f"{self.folder} has changed since it was opened ({error}): another archive or a"
                " compaction is running; start again when it has ended"
            ) from error
        self._sync(self._delta.version() + 1)
        self._delta.update_incremental()

    def _sync(self, version: int) -> None:
        """Sync a commit to the disk, which deltalake does not do."""
        file_ops.sync_file(self.folder / _DELTA_COMMITS / f"{version:020}.json")
        file_ops.sync_folder(self.folder / _DELTA_COMMITS)

    def compact(self, file_bytes: int, now_ms: int) -> tuple[int, int]:  # noqa: ARG002
        """Merge small files; return how many were removed and how many were added.

        Also remove files that no commit has named for ARCHIVE_ORPHAN_HOURS.
        """
        before, version = set(self._delta.file_uris()), self._delta.version()
        done: dict[str, Any] = self._delta.optimize.compact(target_size=file_bytes)
        # The merged files stay until they are vacuumed, but new readers use only the added ones.
        for each in set(self._delta.file_uris()) - before:
            file_ops.sync_file(each)
            file_ops.sync_folder(Path(each).parent)
        self._delta.vacuum(retention_hours=ARCHIVE_ORPHAN_HOURS, dry_run=False, full=True)
        for number in range(version + 1, self._delta.version() + 1):
            self._sync(number)
        return done["numFilesRemoved"], done["numFilesAdded"]


def _statistics(file: ArchivedFile) -> str:
    """Return the statistics by which readers skip files."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {"partition": file.partition, "offset": file.first_offset},
            "maxValues": {"partition": file.partition, "offset": file.last_offset},
            "nullCount": {"partition": 0, "offset": 0},
        }
    )


class ParquetTable:
    """A folder of Parquet files; its methods are those of DeltaTable."""

    def __init__(self, folder: Path, topic: Topic | None) -> None:
        """Open or create the table; complete the last commit if it was interrupted."""
        self.folder = folder
        self._commits = folder / _COMMITS
        self._number = max(
            (int(each.stem) for each in self._commits.glob("[0-9]*.json")), default=0
        )
        if self._number:
            self._last = self._read(self._number)
            if topic is not None:
                _check_topic(folder, topic, self._last["topic"], self._last["topic_id"])
            self._finish()
        elif topic is None:
            raise ConfigError(f"{folder} is not an archive: it has no {_COMMITS}")
        else:
            if folder.exists() and any(each.name != _COMMITS for each in folder.iterdir()):
                raise ConfigError(
                    f"{folder} has files in it, but no {_COMMITS}: it is not an archive"
                )
            self._commits.mkdir(parents=True, exist_ok=True)
            file_ops.sync_folder(folder)
            file_ops.sync_folder(folder.absolute().parent)
            self._last = {
                "version": _VERSION,
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "next_offsets": {},
            }
        self._remove_staging()

    def next_offset(self, partition: int) -> int | None:
        """As DeltaTable."""
        found: int | None = self._last["next_offsets"].get(str(partition))
        return found

    def staging(self, name: str) -> Path:
        """As DeltaTable."""
        return self._commits / name

    def commit(
        self,
        files: Sequence[ArchivedFile],
        next_offsets: Mapping[int, int],
        now_ms: int,  # noqa: ARG002
    ) -> None:
        """As DeltaTable."""
        offsets = self._last["next_offsets"] | {
            str(key): each for key, each in next_offsets.items()
        }
        self._commit([each.path for each in files], [], offsets)

    def _commit(self, added: list[str], removed: list[str], offsets: dict[str, int]) -> None:
        stagings = [each.name for each in self._commits.iterdir() if each.is_dir()]
        if len(stagings) > 1:
            raise ConfigError(f"{self.folder}: another archive is writing to it ({stagings})")
        fields = self._last | {
            "staging": stagings[0] if stagings else None,
            "added": added,
            "removed": removed,
            "next_offsets": offsets,
        }
        draft = self._commits / f"draft-{self._number + 1}"
        file_ops.write_file(draft, json.dumps(fields).encode())
        file_ops.sync_file(draft)
        file_ops.sync_folder(self._commits)
        self._check_staged(added, fields["staging"])
        try:
            # Unlike a rename, a hard link fails if the name exists.
            self._path(self._number + 1).hardlink_to(draft)
        except FileExistsError:
            raise ConfigError(f"{self.folder}: another archive has written to it") from None
        file_ops.remove(draft)
        file_ops.sync_folder(self._commits)
        self._number, self._last = self._number + 1, fields
        self._finish()
        self._remove_staging()

    def _check_staged(self, added: list[str], staging: str | None) -> None:
        """Raise an error if another process has opened the table and removed the staged files."""
        gone = [each for each in added if not (self._commits / str(staging) / each).exists()]
        if gone:
            raise ConfigError(
                f"{self.folder}: {len(gone)} of {len(added)} new files are gone, for example"
                f" {gone[0]}: another archive was started on it; start again when that has ended"
            )

    def _finish(self) -> None:
        """Move and remove the files of the last commit, except those that are done already."""
        for each in self._last["removed"]:
            if (self.folder / each).exists():
                file_ops.remove(self.folder / each)
        for each in self._last["added"]:
            target = self.folder / each
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            file_ops.rename(self._commits / self._last["staging"] / each, target)
        # The new names must be durable before the staging folder is removed.
        sync_folders(self.folder, self._last["added"])

    def _remove_staging(self) -> None:
        """Remove files that no commit names, left by a run that was killed."""
        for each in self._commits.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            elif each.name.startswith("draft-"):
                file_ops.remove(each)

    def _path(self, number: int) -> Path:
        return self._commits / f"{number:020}.json"

    def _read(self, number: int) -> dict[str, Any]:
        text = file_ops.read_file(self._path(number))
        try:
            fields: dict[str, Any] = json.loads(text)
        except ValueError:
            fields = {}
        if fields.get("version") != _VERSION:
            raise ConfigError(
                f"{self._path(number)} is not a commit of this version: {text[:80]!r}"
            )
        return fields

    def compact(self, file_bytes: int, now_ms: int) -> tuple[int, int]:  # noqa: ARG002
        """As DeltaTable."""
        removed: list[str] = []
        added: list[str] = []
        staging = self.staging("compaction")
        for group in self._groups(file_bytes):
            # The name keeps the order of offsets; the commit's number makes it unique.
            name = group[0].with_suffix(f".{self._number + 1}.parquet")
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(str(staging / name), SCHEMA, **PARQUET) as writer:
                for each in group:
                    with pq.ParquetFile(str(self.folder / each)) as file:
                        for batch in file.iter_batches():
                            writer.write_batch(batch)
            file_ops.sync_file(staging / name)
            removed += [each.as_posix() for each in group]
            added.append(name.as_posix())
        if added:
            sync_folders(staging, added)
            self._commit(added, removed, self._last["next_offsets"])
        return len(removed), len(added)

    def _groups(self, file_bytes: int) -> Iterator[list[Path]]:
        """Yield groups of adjacent small files of a day, of about the target size together."""
        for folder in sorted(self.folder.glob("date=*")):
            group: list[Path] = []
            size = 0
            for file in sorted(folder.glob("part-*.parquet")):
                bytes_ = file.stat().st_size
                if bytes_ > file_bytes * _SMALL:
                    continue
                if group and size + bytes_ > file_bytes:
                    if len(group) > 1:
                        yield group
                    group, size = [], 0
                group.append(file.relative_to(self.folder))
                size += bytes_
            if len(group) > 1:
                yield group


Table = DeltaTable | ParquetTable


def open_table(folder: Path, table_format: str, topic: Topic | None) -> Table:
    """Open a table, or create it if it does not exist and a topic is given.

    Raises:
        ConfigError: an unknown format, no such table, or a table of another topic.
        Unsupported: deltalake is not installed.
    """
    formats: dict[str, type[Table]] = {"delta": DeltaTable, "parquet": ParquetTable}
    if table_format not in formats:
        raise ConfigError(f"table format {table_format!r}: expected {' or '.join(formats)}")
    return formats[table_format](folder, topic)
