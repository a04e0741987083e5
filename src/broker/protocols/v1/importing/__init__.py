"""`broker import v1`: a client of the broker that copies the data of V1's original server.

command.py      topics, records, committed offsets
directory.py    segment files → records and damaged lines
offset_map.py   original offsets → offsets here
report.py       what was imported, and what could not be
"""

from typing import Final

from broker.model.limits import PARTITIONS_PER_TOPIC_MAX
from broker.protocols.import_command import ImportOption
from broker.protocols.importing.options import DRY_RUN, RETENTION
from broker.protocols.v1.importing.report import ImportedServer

_PARTITIONS: Final = 3  # per topic, the default of V1's original server

DESCRIPTION: Final = """\
Import the data directory of V1's original server into a running broker.

Records are imported with their timestamps, and committed offsets. Stop that server first. Damaged
lines are reported with file and line; the exit code is 1 then."""
OPTIONS: Final = (
    ImportOption(
        "partitions",
        "The number of partitions that server was configured for; topics are created with it"
        f" (default: {_PARTITIONS}, that server's default).",
        _PARTITIONS,
        range(1, PARTITIONS_PER_TOPIC_MAX + 1),
    ),
    RETENTION,
    DRY_RUN,
)
EXAMPLES: Final = (
    "broker import v1 /var/lib/v1",
    "broker import v1 /var/lib/v1 --partitions 6 -o json",
)
ROW: Final = ImportedServer
