"""The V1 line protocol: one line asks, one line answers.

    V1|<correlation id>|<command>|<arguments>     ->     V1|<correlation id>|OK|<payload>
                                                         V1|<correlation id>|ERR|<code>|<message>

`commands` reads a line, `table` has every command, `handlers` serve them, `errors` says what is
wrong in V1's words. What was decided where the original could not be followed:

- The key of a PRODUCE is the record's key (an empty one is empty, not null), what follows the first
  `:` its value, commas and all; other dialects see both. CONSUME gives values, as it always did.
- A value that a line cannot carry (`_native/wire/line_text`: commas, white space, `hw=`) is
  percent-encoded in place, and its offset stands in ` escaped=[..]` at the line's end, which is
  there only then: nothing is lost, and no reader stops at a record that somebody else wrote. A null
  value reads as an empty one.
- Records that cannot be read, since their batch is damaged or unfolds to more than
  READ_DECOMPRESSED_BYTES_MAX, are stepped over: the first offset of each such batch stands in
  ` skipped=[..]` behind everything else, which is there only then.
- `hw` is the offset of the last record that can be read, -1 for none: the last stable offset less
  one. Behind a PRODUCE it is what it will be once that record can be read.
- CONSUME below the log's start, negative offsets too, begins at the log's start. A line holds 1 MiB
  of records, or one record; the next CONSUME goes on behind it. Control records and records of
  aborted transactions are stepped over.
- acks=0 is acks=1. There is one copy of every record, so acks=all is acks=1, too. As in Kafka a
  min.insync.replicas above the number of copies counts as that number (KIP-966). Where the disk
  takes longer than two seconds, acks=all is REPLICATION_TIMEOUT, and the record stays.
- Followers and roles (`replicas`) are what V1's clients say and what V1 shows; no acknowledgement
  waits for them, and they are not kept over a restart.
- PRODUCE looks at its acks before it creates a topic, so that what is refused changes nothing. A
  name that Kafka cannot have is refused by every command that would use it.
- A topic that exists is created again by ADMIN_CREATE_TOPIC only in the sense that nothing happens,
  if it has as many partitions as asked for; the replication factor is echoed.
"""

from broker.protocols.v1.dispatch import STORAGE_FAILURE, V1

__all__ = ["PROTOCOL", "STORAGE_FAILURE"]

PROTOCOL = V1()
