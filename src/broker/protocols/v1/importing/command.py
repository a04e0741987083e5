"""`broker import v1`: import a data directory of V1's original server into a running broker.

    directory → records → Produce, with their timestamps, partition by partition
              → offsets.json → OffsetCommit, translated to the offsets here

The import is a client of the broker. Topics are created, or must be empty, so that a second import
cannot write records twice. Offsets are unchanged if the original log begins at 0 and has no gaps;
otherwise records get consecutive offsets, committed offsets are translated, and the report says so.
Group members are not imported: they join again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from broker import codec
from broker.client.connection import Client
from broker.core.topics.rules import check_name
from broker.core.topics.topic import INTERNAL_TOPICS
from broker.model import limits
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError, ErrorCode, ImportFailed, RequestError
from broker.protocols.base import Imported, ImportOption
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.files import Offsets
from broker.protocols.v1.importing.directory import (
    Damage,
    Found,
    Partition,
    StoredRecord,
    find_segments,
    read_records,
)
from broker.protocols.v1.importing.offset_map import OffsetMap
from broker.protocols.v1.importing.report import ImportedServer, Report

_AnswerT = TypeVar("_AnswerT")
_PROGRESS_RECORDS = 100_000
_LATEST, _ALL_ACKS, _TIMEOUT_MS = -1, -1, 30_000
_TOPIC = 2  # a resource type of DescribeConfigs
_TRIES = int(limits.CLIENT_TIMEOUT_SECONDS / limits.CLIENT_RETRY_SECONDS)


_PARTITIONS = 3  # per topic, the default of V1's original server
_HAS_MEMBERS = ErrorCode.UNKNOWN_MEMBER_ID.name
_FOREVER, _AS_BROKER = -1, -2  # of --retention
_RETENTION_MS_MAX = 10**18
# Members of an adopted group stay for a session, in which only they may commit.
_SESSION_MS = limits.ASSIGNED_SESSION_TIMEOUT_MS + 2_000

DESCRIPTION: Final = """\
Import the data directory of V1's original server into a running broker.

Records are imported with their timestamps, and committed offsets. Stop that server first. Damaged
lines are reported with file and line; the exit code is 1 then."""
OPTIONS: Final = (
    ImportOption(
        "partitions",
        "The number of partitions that server was configured for; topics are created with it"
        f" (default: {_PARTITIONS}, that server's default).",
        _PARTITIONS,
        range(1, limits.PARTITIONS_PER_TOPIC_MAX + 1),
    ),
    ImportOption(
        "retention",
        "How many milliseconds topics that are created keep their records; -1: for ever,"
        " -2: as the broker is configured (default: -1).",
        _FOREVER,
        range(_AS_BROKER, _RETENTION_MS_MAX + 1),
    ),
)
EXAMPLES: Final = (
    "broker import v1 /var/lib/v1",
    "broker import v1 /var/lib/v1 --partitions 6 -o json",
)
ROW: Final = ImportedServer


def run(
    folder: Path,
    options: Mapping[str, int],
    connect: Callable[[], Client],
    progress: Callable[[str], None],
) -> Imported:
    """Import; print problems by `progress`.

    Raises:
        ConfigError: the directory has no data of V1's server.
        Unreachable, PeerError: of the broker.
        ImportFailed: a topic cannot accept the records, or the broker refuses them.
    """
    try:
        found = find_segments(folder)
        offsets = files.read_offsets(folder)
        has_unread = offsets is None and (folder / files.OFFSETS_FILE).exists()
        if not found.segments and offsets is None:
            raise ConfigError(
                f"{folder} has no TOPIC-PARTITION-segment-NNNNNN.log and no offsets.json"
                " that can be read: give the data directory of V1's server"
            )
        report = Report(found.mirror_count, progress)
        if has_unread:
            report.add_problem(
                f"{files.OFFSETS_FILE} cannot be read, no committed offset is imported: repair"
                " it, delete the topics and import again"
            )
        with connect() as client:
            importing = _Import(client, report, options, SystemClock())
            importing.run(found, offsets or {})
    except OSError as error:
        raise ImportFailed(
            f"{folder} cannot be read: {error}. Make it readable and import again"
        ) from error
    return Imported(report.row(), tuple(report.as_text()), _next_steps(report))


def _configs_for(retention_ms: int) -> dict[str, str]:
    """Return the settings of topics that are created; without a limit they keep everything."""
    if retention_ms == _AS_BROKER:
        return {}
    configs = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
    return configs | ({"retention.bytes": "-1"} if retention_ms == _FOREVER else {})


def _next_steps(report: Report) -> str:
    if report.is_complete:
        return ""
    return (
        f"{report.damage_count} damaged lines and {report.problem_count} other problems, see above;"
        " everything else is imported. Use it as it is, or repair the files, delete the topics and"
        " import again"
    )


class _Import:
    """One import of segments and committed offsets."""

    def __init__(
        self, client: Client, report: Report, options: Mapping[str, int], clock: Clock
    ) -> None:
        self._client = client
        self._report = report
        self._partition_count = options["partitions"]  # of topics that are created
        self._configs_of_topics = _configs_for(options["retention"])  # likewise
        self._clock = clock
        self._oldest_ms: dict[str, int] = {}  # of the records of each topic

    def run(self, found: Found, offsets: Mapping[str, Offsets]) -> None:
        named = [each for each in found.segments if self._is_named(each)]
        sizes: dict[str, int] = {}
        for each in named:
            sizes[each.topic] = max(sizes.get(each.topic, 0), each.number + 1)
        for topic, size in sizes.items():  # all are ready before the first record is written
            self._prepare(topic, size)
        for each in named:
            self._import_partition(each, found.segments[each])
        for topic, oldest_ms in self._oldest_ms.items():
            self._check_retention(topic, oldest_ms)
        for group_id, topics in offsets.items():
            self._commit(group_id, topics)

    def _is_named(self, partition: Partition) -> bool:
        """Return whether a topic's name and number of partitions are allowed; else report it."""
        topic, number = partition
        try:
            check_name(topic)
        except RequestError as error:
            reason = str(error)
        else:
            if topic in INTERNAL_TOPICS:
                reason = "it is the name of an internal topic"
            elif number < limits.PARTITIONS_PER_TOPIC_MAX:
                return True
            else:
                reason = f"a topic has at most {limits.PARTITIONS_PER_TOPIC_MAX} partitions"
        self._report.add_problem(
            f"{topic!a}-{number} is not imported: {reason}; rename its files and import again"
        )
        return False

    # ---- topics ----------------------------------------------------------------------------------

    def _prepare(self, topic: str, partitions_needed: int) -> None:
        """Create the topic, or check that it has enough partitions and is empty."""
        body = {
            "name": topic,
            "num_partitions": max(partitions_needed, self._partition_count),
            "replication_factor": -1,
            "configs": [{"name": name, "value": v} for name, v in self._configs_of_topics.items()],
        }
        answer = self._client.request(
            "CreateTopics", 5, {"topics": [body], "timeout_ms": _TIMEOUT_MS}
        )
        error = codec.error_of(answer["topics"][0]["error_code"])
        if error.name not in (ErrorCode.NONE.name, ErrorCode.TOPIC_ALREADY_EXISTS.name):
            raise ImportFailed(
                f"topic {topic} cannot be created: {error.name}: {error.message}. Correct that and"
                " import again"
            )
        for number in range(partitions_needed):
            end = self._end_offset(Partition(topic, number))
            if end is None:
                raise ImportFailed(
                    f"topic {topic} has fewer partitions than the files, {partitions_needed}: add"
                    " partitions (kafka-topics.sh --alter) and import again"
                )
            if end > 0:
                raise ImportFailed(
                    f"topic {topic} has records already: delete it (kafka-topics.sh --delete"
                    f" --topic {topic}) and import again, or import into another broker"
                )

    def _end_offset(self, partition: Partition) -> int | None:
        """Return the end offset of a partition, None if the partition does not exist."""
        asked = {"partition_index": partition.number, "timestamp": _LATEST}
        body = {
            "replica_id": -1,
            "topics": [{"name": partition.topic, "partitions": [asked]}],
        }

        def ask() -> tuple[int, int]:
            found = self._client.request("ListOffsets", 5, body)["topics"][0]["partitions"][0]
            return found["error_code"], found["offset"]

        error, end = _with_retries(ask)
        if error.name == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name:
            return None
        if error.code:
            raise ImportFailed(
                f"{partition.topic}-{partition.number}: its end offset cannot be read:"
                f" {error.message}. Correct that and import again"
            )
        return end

    # ---- records ---------------------------------------------------------------------------------

    def _import_partition(self, partition: Partition, files: list[Path]) -> None:
        """Write the records of a partition, in order and without records of others in between."""
        offset_map = self._report.maps[partition] = OffsetMap()
        batch: list[StoredRecord] = []
        size = 0
        for each in read_records(files):
            if isinstance(each, Damage):
                self._report.add_damage(each)
                continue
            batch.append(each)
            size += len(each.value)
            if size >= limits.IMPORT_BATCH_BYTES or len(batch) >= limits.IMPORT_BATCH_RECORDS:
                self._write(partition, batch, offset_map)
                batch, size = [], 0
        if batch:
            self._write(partition, batch, offset_map)
        self._report.progress(f"{partition.topic}-{partition.number}: {offset_map.count} records")

    def _check_retention(self, topic: str, oldest_ms: int) -> None:
        """Report records that retention will delete soon, because they keep their timestamps."""
        configs = self._configs(topic, "cleanup.policy", "retention.ms")
        retention_ms = int(configs["retention.ms"])
        if "delete" not in configs["cleanup.policy"] or retention_ms < 0:
            return
        age_ms = self._clock.wall_ms() - oldest_ms
        if age_ms > retention_ms:
            self._report.add_problem(
                f"topic {topic} deletes records after {retention_ms} ms (retention.ms); its oldest"
                f" are {age_ms} ms old and will be deleted within minutes. To keep them run"
                f" kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config"
                f" retention.ms=-1; if they are deleted already, delete topic {topic}, create it"
                " with that setting and import again"
            )

    def _configs(self, topic: str, *names: str) -> dict[str, str]:
        resource = {
            "resource_type": _TOPIC,
            "resource_name": topic,
            "configuration_keys": list(names),
        }
        body = {"resources": [resource], "include_synonyms": False}
        [found] = self._client.request("DescribeConfigs", 1, body)["results"]
        error = codec.error_of(found["error_code"])
        if error.code:
            raise ImportFailed(
                f"the settings of topic {topic} cannot be read: {error.message}. Correct that,"
                f" delete topic {topic} and import again"
            )
        return {each["name"]: each["value"] for each in found["configs"]}

    def _write(
        self, partition: Partition, batch: list[StoredRecord], offset_map: OffsetMap
    ) -> None:
        rows = [(None, each.value, (), each.timestamp_ms) for each in batch]
        [encoded] = codec.encode(rows, batch_bytes_max=2 * limits.IMPORT_BATCH_BYTES)
        base_offset = self._produce(partition, encoded, batch[0].offset)
        oldest_ms = min(each.timestamp_ms for each in batch)
        known_ms = self._oldest_ms.get(partition.topic, oldest_ms)
        self._oldest_ms[partition.topic] = min(known_ms, oldest_ms)
        if base_offset != offset_map.count:
            raise ImportFailed(
                f"{partition.topic}-{partition.number}: another client writes to it. Stop that"
                f" client, delete topic {partition.topic} and import again"
            )
        for each in batch:
            if not offset_map.add(each.offset):
                self._report.add_problem(
                    f"{partition.topic}-{partition.number}: offset {each.offset} occurs again or"
                    f" out of order; its record has offset {offset_map.count - 1} here"
                )
            if offset_map.count % _PROGRESS_RECORDS == 0:
                self._report.progress(
                    f"{partition.topic}-{partition.number}: {offset_map.count} records so far"
                )

    def _produce(self, partition: Partition, batch: bytes, first_offset: int) -> int:
        """Write a batch and return the offset of its first record."""
        data = {"index": partition.number, "records": batch}
        topic = {"name": partition.topic, "partition_data": [data]}
        body = {"acks": _ALL_ACKS, "timeout_ms": _TIMEOUT_MS, "topic_data": [topic]}
        answer = self._client.request("Produce", 9, body)
        [found] = answer["responses"][0]["partition_responses"]
        error = codec.error_of(found["error_code"])
        if error.code:
            raise ImportFailed(
                f"{partition.topic}-{partition.number}: the broker refuses the records from offset"
                f" {first_offset}: {error.name}: {error.message}. Correct that, delete topic"
                f" {partition.topic} and import again"
            )
        base_offset: int = found["base_offset"]
        return base_offset

    # ---- offsets ---------------------------------------------------------------------------------

    def _commit(self, group_id: str, topics: Offsets) -> None:
        """Commit the offsets of a group."""
        wanted = list(self._translated(group_id, topics))
        for first in range(0, len(wanted), limits.IMPORT_OFFSETS_PER_REQUEST):
            part = wanted[first : first + limits.IMPORT_OFFSETS_PER_REQUEST]
            codes = self._commit_some(group_id, part)
            if any(codec.error_of(code).name == _HAS_MEMBERS for code in codes.values()):
                codes = self._commit_beside_members(group_id, part)
            for topic, number, offset in part:
                error = codec.error_of(codes[topic, number])
                if error.code:
                    self._report.add_problem(
                        f"the broker refuses the offset of group {group_id!a} in {topic}-{number}:"
                        f" {error.name}: {error.message}"
                    )
                else:
                    group = self._report.offsets.setdefault(group_id, {})
                    group.setdefault(topic, {})[number] = offset

    def _translated(self, group_id: str, topics: Offsets) -> Iterator[tuple[str, int, int]]:
        """Yield the offsets of the same records here."""
        for topic, partitions in topics.items():
            for number, offset in partitions.items():
                offset_map = self._report.maps.get(Partition(topic, number), OffsetMap())
                if offset < 0 or (offset > 0 and not offset_map.count):
                    self._report.add_problem(
                        f"offset {offset} of group {group_id!a} in {topic!a}-{number} is not"
                        " imported: the partition has no records"
                    )
                else:
                    yield topic, number, offset_map.translate(offset)

    def _commit_some(
        self, group_id: str, part: list[tuple[str, int, int]]
    ) -> dict[tuple[str, int], int]:
        """Commit; return the error code of each partition."""
        by_topic: dict[str, list[codec.Fields]] = {}
        for topic, number, offset in part:
            asked = {"partition_index": number, "committed_offset": offset}
            by_topic.setdefault(topic, []).append({**asked, "committed_metadata": ""})
        named = [{"name": name, "partitions": each} for name, each in by_topic.items()]
        body = {"group_id": group_id, "member_id": "", "topics": named}

        def ask() -> tuple[int, dict[tuple[str, int], int]]:
            codes = {
                (topic["name"], each["partition_index"]): each["error_code"]
                for topic in self._client.request("OffsetCommit", 8, body)["topics"]
                for each in topic["partitions"]
            }
            return next(iter(codes.values())), codes

        return _with_retries(ask)[1]

    def _commit_beside_members(
        self, group_id: str, part: list[tuple[str, int, int]]
    ) -> dict[tuple[str, int], int]:
        """Commit once the group's members are gone, unless its offsets are these already.

        A first start of the broker in such a directory takes over the group, with its offsets; its
        members stay until their sessions end.
        """
        deadline_ms = self._clock.monotonic_ms() + _SESSION_MS
        is_told = False
        while True:
            if self._are_committed(group_id, part):
                return {(topic, number): 0 for topic, number, _ in part}
            codes = self._commit_some(group_id, part)
            refused = any(codec.error_of(code).name == _HAS_MEMBERS for code in codes.values())
            if not refused or self._clock.monotonic_ms() >= deadline_ms:
                return codes
            if not is_told:
                self._report.progress(f"group {group_id!a} has members: waiting for their end")
                is_told = True
            time.sleep(limits.CLIENT_RETRY_SECONDS)

    def _are_committed(self, group_id: str, part: list[tuple[str, int, int]]) -> bool:
        by_topic: dict[str, list[int]] = {}
        for topic, number, _ in part:
            by_topic.setdefault(topic, []).append(number)
        named = [{"name": name, "partition_indexes": each} for name, each in by_topic.items()]
        answer = self._client.request("OffsetFetch", 5, {"group_id": group_id, "topics": named})
        found = {
            (topic["name"], each["partition_index"]): each["committed_offset"]
            for topic in answer["topics"]
            for each in topic["partitions"]
        }
        return all(found.get((topic, number)) == offset for topic, number, offset in part)


def _with_retries(ask: Callable[[], tuple[int, _AnswerT]]) -> tuple[codec.KafkaError, _AnswerT]:
    """Call `ask` again after retriable errors, except for a partition that does not exist."""
    tries_left = _TRIES
    while True:
        code, answer = ask()
        error = codec.error_of(code)
        tries_left -= 1
        is_final = error.name == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
        if is_final or not error.is_retriable or not tries_left:
            return error, answer
        time.sleep(limits.CLIENT_RETRY_SECONDS)
