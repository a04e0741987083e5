"""What must be true before a release.

    python -m tools.release_check TAG

TAG is `v` and the version of pyproject.toml; CHANGELOG.md has a section of that version.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def problems(tag: str) -> list[str]:
    """Return what is not true, a sentence each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = []
    if tag != f"v{project['version']}":
        found.append(f"the tag is {tag}, the version in pyproject.toml is {project['version']}")
    heading = rf"^## \[?{re.escape(project['version'])}\b"
    if not re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        found.append(f"CHANGELOG.md has no section of {project['version']}")
    return found


def main(tag: str) -> int:
    """Print what is not true; return the exit code."""
    found = problems(tag)
    for each in found:
        print(each, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
