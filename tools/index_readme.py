"""The README as a package index shows it: links and images lead to the repository's pages.

An index has the text of README.md, not the files beside it. The build adds the address of the
repository to each link that has none; it is the project's URL `Source` in pyproject.toml.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

README: Final = Path(__file__).parents[1] / "README.md"
BRANCH: Final = "main"
_LINK: Final = re.compile(r"(?P<before>(?P<image>!?)\[[^\]]*\]\()(?P<target>[^)\s]+)(?=\))")


def dynamic_metadata(
    settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return the field `readme` of the package: what the build backend calls."""
    del settings  # there are none
    source = project["urls"]["Source"]
    text = with_absolute_links(README.read_text(encoding="utf-8"), source)
    return {"readme": {"content-type": "text/markdown", "text": text}}


def with_absolute_links(text: str, source: str) -> str:
    """Return a page whose relative links and images lead to a repository at this address."""

    def absolute(found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z]+:", target):
            return found[0]
        kind = "raw" if found["image"] else "blob"
        page = f"README.md{target}" if target.startswith("#") else target
        return f"{found['before']}{source}/{kind}/{BRANCH}/{page}"

    return _LINK.sub(absolute, text)
