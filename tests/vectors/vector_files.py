"""The files of vectors in this folder, line by line; README.md describes them."""

import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NEWEST = "kafka-4.4.0"
RELEASES = (NEWEST, "kafka-3.9.2")
SETTINGS = "kafka-4.3.1"  # the release whose settings are all known


def lines(release: str, name: str) -> list[dict[str, Any]]:
    """Return the objects of one file."""
    with gzip.open(FOLDER / release / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
