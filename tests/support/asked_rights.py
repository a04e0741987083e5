"""Which of its ACLs an application has needed: those without which a request had been refused.

The audit of a broker has every decision. An ACL is needed if something was asked for that all of
them allow together and the others do not; whoever had not that one would have been answered with an
error.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from broker.core.security.acls import Operation, PatternType, ResourceType
from tests.oracles.authorizer_oracle import IMPLIED

# The settings of the broker: every decision takes the path through Python.
EVERY_DECISION = "polylog.audit.events=access,question,denial,administration"

Entry = dict[str, Any]  # the fields of an ACL in CreateAcls


class Asked(NamedTuple):
    """One question, whatever the answer was."""

    operation: str
    kind: str
    name: str


def asked_by(principal: str, file: Path) -> set[Asked]:
    """Return what a principal has asked for, according to the file of the audit."""
    found = set()
    whole, _, _ = file.read_text().rpartition("\n")  # the last line may be on its way
    for line in whole.splitlines():
        event = json.loads(line)
        user = event.get("actor", {}).get("user", {})
        if "api" not in event or f"{user['type']}:{user['name']}" != principal:
            continue
        resource = event["databucket"] if "databucket" in event else event["resources"][0]
        [operation] = event["api"]["request"]["flags"]
        found.add(Asked(operation, resource["type"], resource["name"]))
    return found


def without_use(entries: Sequence[Entry], asked: Iterable[Asked]) -> list[str]:
    """Return those of the ACLs that none of the questions needed."""
    sole = set()
    for question in asked:
        allowing = [place for place, each in enumerate(entries) if _allows(each, question)]
        if len(allowing) == 1:
            sole.add(allowing[0])
    return [_text(each) for place, each in enumerate(entries) if place not in sole]


def _allows(entry: Entry, asked: Asked) -> bool:
    if ResourceType(entry["resource_type"]).title != asked.kind:
        return False
    given = Operation(entry["operation"])
    implied = {wanted.title for wanted, by in IMPLIED.items() if given in by}
    if asked.operation not in {given.title, *implied}:
        return False
    name = entry["resource_name"]
    if entry["resource_pattern_type"] == PatternType.PREFIXED:
        return asked.name.startswith(name)
    return bool(asked.name == name)


def _text(entry: Entry) -> str:
    operation, kind = Operation(entry["operation"]), ResourceType(entry["resource_type"])
    return f"{operation.title} {kind.title} {entry['resource_name']}"
