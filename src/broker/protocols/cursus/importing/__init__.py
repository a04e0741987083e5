"""`broker import cursus`: a client of the broker that copies the data of the original Cursus.

command.py      topics, records, streams and committed offsets
directory.py    the manifest, segments → records and damage, files of snapshots
stored.py       the bytes of a stored record
journal.py      what became of transactions
visible.py      which records a reader with read_committed sees
offsets.py      the records of __consumer_offsets → committed offsets
streams.py      events and snapshots, by commands of the protocol
report.py       what was imported, and what could not be

docs/protocols/cursus-files.md describes the files.
"""

from typing import Final

from broker.protocols.cursus.importing.report import ImportedCursus
from broker.protocols.importing.options import DRY_RUN, RETENTION

DESCRIPTION: Final = """\
Import the data directory of the original Cursus into a running broker.

Topics are imported with their settings, records, streams of events with snapshots, and committed
offsets. Stop that server first. Damaged records are reported with file and position; the exit code
is 1 then."""
OPTIONS: Final = (RETENTION, DRY_RUN)
EXAMPLES: Final = (
    "broker import cursus /var/lib/cursus/logs",
    "broker import cursus /var/lib/cursus/logs --dry-run -o json",
)
ROW: Final = ImportedCursus
