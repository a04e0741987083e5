"""The ACLs of each kind of application, read from the document that names them."""

import re
from pathlib import Path
from typing import Any

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
