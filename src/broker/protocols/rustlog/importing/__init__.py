"""`broker import rustlog`: a client of the broker that copies files of the original RustLog.

command.py      topics, records
directory.py    folders → partitions; files → records and damage
report.py       what was imported, and what could not be

docs/protocols/rustlog-files.md describes the files.
"""

from typing import Final

from broker.protocols.importing.options import DRY_RUN, RETENTION
from broker.protocols.rustlog.importing.report import ImportedRustLog

DESCRIPTION: Final = """\
Import files of the original RustLog into a running broker.

DIR has a folder per topic, with a folder per partition: TOPIC/0/00000000000000000000.log. Damaged
records are reported with file and position; the exit code is 1 then."""
OPTIONS: Final = (RETENTION, DRY_RUN)
EXAMPLES: Final = (
    "broker import rustlog /var/lib/rustlog",
    "broker import rustlog /var/lib/rustlog --dry-run -o json",
)
ROW: Final = ImportedRustLog
