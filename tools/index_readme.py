"""What a package index shows: the README with links that work there, and the project's URLs.

An index has the text of README.md, not the files beside it: a link has to lead to the repository.
Only who publishes the package knows its address. The build takes it from POLYLOG_SOURCE_URL, which
the release workflow sets to the repository that it runs in. A build without it has no URLs, and the
README's links within the repository are text.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

README: Final = Path(__file__).parents[1] / "README.md"
VARIABLE: Final = "POLYLOG_SOURCE_URL"
BRANCH: Final = "main"
# The URLs of the project within the repository, by the labels that indexes know.
PAGES: Final = {
    "Source": "",
    "Documentation": f"/blob/{BRANCH}/docs/quickstart.md",
    "Changelog": f"/blob/{BRANCH}/CHANGELOG.md",
    "Security": f"/blob/{BRANCH}/SECURITY.md",
    "Issues": "/issues",
}
_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def dynamic_metadata(
    settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return the fields `readme` and `urls` of the package: what the build backend calls."""
    del settings, project  # there are none; it needs nothing of it
    source = os.environ.get(VARIABLE, "").rstrip("/")
    text = for_index(README.read_text(encoding="utf-8"), source)
    urls = {label: source + page for label, page in PAGES.items()} if source else {}
    return {"readme": {"content-type": "text/markdown", "text": text}, "urls": urls}


def for_index(text: str, source: str) -> str:
    """Return a page whose relative links and images lead to a repository, or are text without one.

    Args:
        text: the page, in Markdown.
        source: the address of the repository; empty: it is not known.
    """

    def absolute(found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z]+:", target):
            return found[0]
        if not source:
            return found["text"]
        kind = "raw" if found["image"] else "blob"
        page = f"README.md{target}" if target.startswith("#") else target
        return f"{found['image']}[{found['text']}]({source}/{kind}/{BRANCH}/{page})"

    return _LINK.sub(absolute, text)
