"""Records that were deleted before a verb could read them: it says so, and goes on behind them."""

import sys
from collections.abc import Callable

from broker.cli.exit_codes import Exit
from broker.cli.frame import Session
from broker.cli.partitions import partition_text
from broker.client.reading import Missed
from broker.model.printable import printable


def missed_in(session: Session) -> Callable[[Missed], None]:
    """Return what tells that records were missed; the command ends with UNHEALTHY then.

    How many records there were is not known: compaction and transactions leave gaps in offsets.
    """

    def tell(missed: Missed) -> None:
        name = printable(partition_text((missed.topic, missed.partition)))
        print(
            f"broker: {name}: offsets {missed.start} to {missed.end - 1} were deleted before they"
            f" were read: up to {missed.end - missed.start:,} records are missing, going on at"
            f" offset {missed.end}",
            file=sys.stderr,
            flush=True,
        )
        if session.exit_code == Exit.OK:
            session.exit_code = Exit.UNHEALTHY

    return tell
