"""Committed offsets of the original Cursus, from the records of its topic `__consumer_offsets`.

Their payloads are JSON. Without "version":

    {"group", "topic", "partition", "offset"}                    one offset
    {"group", "topic", "offsets": [{"partition", "offset"}]}     several

With "version", by "type":

    group_registration              epoch; initial_offsets: [{topic, revision, offsets}]
    group_tombstone                 epoch: the group is gone, with everything of a lower epoch
    offset_snapshot                 topic, epoch, revision, offsets: all offsets of the group there
    transactional_offset_snapshot   not in force by itself: the journal decides
    group_lifecycle_snapshot        members, which are not imported

The highest epoch of a group counts, and of a topic in it the highest revision. Older records count
only for groups that have none of these.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from broker.protocols.cursus.importing.journal import COMMITTED, COMMITTING, Outcome

Offsets: TypeAlias = dict[str, dict[int, int]]  # by topic and partition
_REGISTRATION: Final = "group_registration"
_TOMBSTONE: Final = "group_tombstone"
_SNAPSHOT: Final = "offset_snapshot"
_OTHERS: Final = ("transactional_offset_snapshot", "group_lifecycle_snapshot")


class _Snapshot(NamedTuple):
    epoch: int
    revision: int
    offsets: dict[int, int]


class CommittedOffsets:
    """What all groups have committed; records may come in any order of partitions."""

    def __init__(self) -> None:
        """Begin without groups."""
        self._old: dict[str, Offsets] = {}
        self._epochs: dict[str, tuple[int, bool]] = {}  # the highest, and whether the group is gone
        self._snapshots: dict[tuple[str, str], _Snapshot] = {}

    def add(self, payload: bytes) -> None:
        """Add a record; raise ValueError with the reason why it cannot be."""
        try:
            self._add(json.loads(payload))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it lacks a field, or one has another type: {error}") from None

    def _add(self, found: dict[str, Any]) -> None:
        if "version" not in found:
            self._add_old(found)
            return
        kind, group, epoch = found["type"], str(found["group"]), int(found["epoch"])
        if kind in (_REGISTRATION, _TOMBSTONE):
            known, _ = self._epochs.get(group, (0, False))
            if epoch >= known:
                self._epochs[group] = epoch, kind == _TOMBSTONE
            for each in found.get("initial_offsets") or ():
                self._add_snapshot(group, epoch, each)
        elif kind == _SNAPSHOT:
            self._add_snapshot(group, epoch, found)
        elif kind not in _OTHERS:
            raise ValueError(f"its type is {kind!r}")

    def _add_snapshot(self, group: str, epoch: int, found: Mapping[str, Any]) -> None:
        key = group, str(found["topic"])
        snapshot = _Snapshot(epoch, int(found.get("revision", 0)), _items(found["offsets"]))
        known = self._snapshots.get(key)
        if known is None or snapshot[:2] >= known[:2]:
            self._snapshots[key] = snapshot

    def _add_old(self, found: Mapping[str, Any]) -> None:
        group, topic = str(found["group"]), str(found["topic"])
        items = _items(found["offsets"] if found.get("offsets") else [found])
        offsets = self._old.setdefault(group, {}).setdefault(topic, {})
        for number, offset in items.items():
            offsets[number] = max(offset, offsets.get(number, 0))

    def groups(self, outcomes: Iterable[Outcome]) -> dict[str, Offsets]:
        """Return the offsets of every group, with those of transactions that are committed."""
        found: dict[str, Offsets] = {}
        newest: dict[str, int] = {}  # of groups that no registration may be known of
        for (group, _), snapshot in self._snapshots.items():
            newest[group] = max(snapshot.epoch, newest.get(group, 0))
        for (group, topic), snapshot in sorted(self._snapshots.items()):
            epoch, is_gone = self._epochs.get(group, (newest[group], False))
            if snapshot.epoch == epoch and not is_gone:
                found.setdefault(group, {})[topic] = dict(snapshot.offsets)
        for group, topics in sorted(self._old.items()):
            if group not in self._epochs and group not in newest:
                found[group] = {name: dict(offsets) for name, offsets in topics.items()}
        for outcome in outcomes:
            if outcome.state in (COMMITTED, COMMITTING):
                self._advance(found, outcome)
        return found

    def _advance(self, found: dict[str, Offsets], outcome: Outcome) -> None:
        """Apply the offsets of a committed transaction: they only move forward."""
        for group, topics in outcome.offsets.items():
            if self._epochs.get(group, (0, False))[1]:
                continue  # the group is gone
            for topic, items in topics.items():
                offsets = found.setdefault(group, {}).setdefault(topic, {})
                for number, offset in items.items():
                    offsets[number] = max(offset, offsets.get(number, 0))


def _items(offsets: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    return {int(each["partition"]): int(each["offset"]) for each in offsets}
