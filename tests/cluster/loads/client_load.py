"""The load of one client library on a cluster, and the history that it writes.

Every load has the same workers. The partitions of their topics are spread over the brokers:

    sender            idempotent, keeps several batches in flight             -> sent
    reader-1, -2      members of one group, commit what they have read        <- sent
    copier            reads, writes and commits in transactions               sent -> copied
      or writer       writes in transactions                                  -> copied

A load outlives every broker: it meets only errors that its library retries. The value of a record
is its name, `topic,partition,worker,number`. The name of a copy has as its worker the worker and
number of the original (`worker:number`), and a number of its own: each attempt is another record.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.compatibility.faults.loads.load import Worker, name_of

SENT, COPIED = "sent", "copied"
PARTITIONS = 6
READERS, COPIERS = "readers", f"{COPIED}-copiers"  # groups


class Load(NamedTuple):
    """The workers of one client library."""

    senders: Sequence[Worker]  # stopped first, so that the others can finish
    others: Sequence[Worker]
    names: Sequence[str]  # under which they write into the history
    copies: bool  # whether `copied` has in the end all that is in `sent`, in its order
    name_of: Callable[[bytes | None], str | None] = name_of

    @property
    def workers(self) -> list[Worker]:
        """All of them."""
        return list(dict.fromkeys([*self.senders, *self.others]))
