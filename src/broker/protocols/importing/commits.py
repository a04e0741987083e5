"""Committed offsets of an import: translated to the offsets here, and committed."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from broker import codec
from broker.client.connection import Client
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import ErrorCode
from broker.protocols.importing.offset_map import OffsetMap
from broker.protocols.importing.report import Partition, Report
from broker.protocols.importing.target import with_retries

_HAS_MEMBERS: Final = ErrorCode.UNKNOWN_MEMBER_ID.name
# Members of an adopted group stay for a session, in which only they may commit.
_SESSION_MS: Final = limits.ASSIGNED_SESSION_TIMEOUT_MS + 2_000


class Commits:
    """Commits the offsets of groups, after all records are written."""

    def __init__(self, client: Client, report: Report, clock: Clock, *, is_dry_run: bool) -> None:
        """Begin without groups."""
        self._client = client
        self._report = report
        self._clock = clock
        self._is_dry_run = is_dry_run

    def commit(self, group_id: str, topics: Mapping[str, Mapping[int, int]]) -> None:
        """Commit the offsets of a group."""
        wanted = list(self._translated(group_id, topics))
        for first in range(0, len(wanted), limits.IMPORT_OFFSETS_PER_REQUEST):
            part = wanted[first : first + limits.IMPORT_OFFSETS_PER_REQUEST]
            codes = self._commit_part(group_id, part)
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

    def _commit_part(
        self, group_id: str, part: list[tuple[str, int, int]]
    ) -> dict[tuple[str, int], int]:
        if self._is_dry_run:
            return {(topic, number): 0 for topic, number, _ in part}
        codes = self._commit_some(group_id, part)
        if any(codec.error_of(code).name == _HAS_MEMBERS for code in codes.values()):
            return self._commit_beside_members(group_id, part)
        return codes

    def _translated(
        self, group_id: str, topics: Mapping[str, Mapping[int, int]]
    ) -> Iterator[tuple[str, int, int]]:
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

        return with_retries(ask)[1]

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
