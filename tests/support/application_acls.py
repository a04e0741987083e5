"""The ACLs of each kind of application, read from the document that names them."""

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.support.acl_broker import GROUP, TOPIC, TRANSACTIONAL_ID, acl

_DOCUMENT = Path(__file__).parents[2] / "docs/security/acls.md"
_SECTION = re.compile(r"^## What applications need$(.*?)^## ", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_RIGHT = re.compile(r"(\w+) (Topic|Group|TransactionalId) `([^`]+)`")
_KINDS = {"Topic": TOPIC, "Group": GROUP, "TransactionalId": TRANSACTIONAL_ID}
_SAME = "the same, "  # as the row before


def application_acls(application: str, principal: str, **names: str) -> list[dict[str, Any]]:
    """Return the ACLs of a row of the document.

    Args:
        application: the first cell of the row.
        principal: who runs it.
        names: what stands in the place of <name>; a dot is an underscore here.
    """
    rights = _rows()[application]
    given = {name.replace("_", "."): text for name, text in names.items()}
    entries = []
    for operation, kind, pattern in rights:
        name = re.sub("<([^>]+)>", lambda found: given[found[1]], pattern)
        is_prefixed = name.endswith("*")
        entries.append(
            acl(
                operation,
                _KINDS[kind],
                name.removesuffix("*"),
                principal=principal,
                is_prefixed=is_prefixed,
            )
        )
    return entries


class Removal(NamedTuple):
    """An ACL that is taken away, and those that are left."""

    removed: dict[str, Any]
    left: list[dict[str, Any]]


def removals(count: int, choices: Random, config: pytest.Config) -> list[int]:
    """Return places of some of so many ACLs, as many as --removed-rights says."""
    return sorted(choices.sample(range(count), min(count, config.getoption("--removed-rights"))))


def without(acls: Sequence[dict[str, Any]], place: int) -> Removal:
    """Take away one."""
    return Removal(acls[place], [*acls[:place], *acls[place + 1 :]])


def _rows() -> dict[str, list[tuple[str, str, str]]]:
    section = _SECTION.search(_DOCUMENT.read_text())
    assert section is not None
    rows: dict[str, list[tuple[str, str, str]]] = {}
    before: list[tuple[str, str, str]] = []
    for application, needs in _ROW.findall(section[1]):
        rights = _RIGHT.findall(needs)
        assert application == "application" or rights, needs
        rows[application] = (before if needs.startswith(_SAME) else []) + rights
        before = rows[application]
    return rows
