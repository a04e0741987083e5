"""The Cursus protocol: frames behind a u32 length, in each a batch (BA7C) or a text command.

`bodies` finds out what a frame has, `grammar` reads a text in both of its forms, `table` has every
command, `handlers` serve them, `errors` says what is wrong in Cursus's words. The batch's bytes are
read and written by src/_native/wire/cursus_batch.pyx. What was decided where the originals (a
document, its clients, and their broker, which differ) could not all be followed:

- Both layouts of the batch are read, and both forms of the commands. A positional CONSUME or
  STREAM, which only the document knows, is answered in the document's layout, without keepalives
  and STREAM_CONTROL; everything else in today's.
- Batches that are refused are answered in JSON, as their clients understand nothing else; only
  NOT_LEADER is a text. An answer has all eight keys, `leader` always empty: it is this broker.
- acks=0 is answered by `{"status":"OK"}`: two clients wait for it, the third never reads. So it is
  not sent to a connection that leaves what was sent before.
- acks=-1 and acks=all are acks=1, whatever the topic's min.insync.replicas is: a partition has one
  replica, and no more are asked for than there are. An error would make clients send it for ever.
- A producer's batches may overtake each other by as many as its clients have in flight.
- `offset=` counts unless the group has committed a higher one; nothing is cached per connection.
- A frame holds at most 8,192 records and 15 MiB, or one record; one of a STREAM ends near 1 MiB.
- What is said behind an open STREAM waits, unread, for its end; a peer that only ends its own side
  of the connection ends it. Who reads may pause for as long as connections.max.idle.ms with frames
  unsent. A stream that cannot begin where it was asked to closes with the offset of the first
  record there is. A batch that is damaged or unfolds to more than 64 MiB is stepped over with a log
  line; its readers see the gap in the offsets, as CLOSE would have some of them ask for it again
  without end.
- GEN_MISMATCH is pushed on the streams of a member whose group rebalances, member_not_found where
  its session is over: it ends them, not their connections. A STREAM's `generation=` counts if the
  group has that member, and keeps it no more alive than the original's.
- A key that is empty is no key. Of a record that others wrote, what a field cannot carry reads as
  empty: a key of more than 65,535 bytes, a null value.
- Who joins a group by its own name because it was told to join again goes on as the member that was
  told; of several of that name, as the one that was told first (core/groups/assigned/rejoining.py).
  So groups settle, whatever a client sends.
- A group reads one topic, no pattern, while it has live members; then whatever the next one joins.
  Only CONSUME takes a pattern: a record does not say of which topic it is, so nobody could commit
  how far each has been read but by its own name, as COMMIT does. REGISTER_GROUP checks that and
  keeps nothing. COMMIT without a member is allowed at any time.
- A transaction's records are written at once, by a producer of Kafka's kind, and its offsets wait
  with their group; the answer says "staged", not that the disk has them. END_TXN has them there
  before it is decided, and is answered when they can be seen, after three seconds at most. So every
  dialect sees a transaction as a whole or not at all, and a staged message costs no sync.
- What is open when the broker stops, or for longer than a minute, is aborted: its producer hears
  transaction_aborted, and producer_reinitialization_required when it begins the next. Otherwise one
  epoch has as many transactions as its producer likes: two clients never take their id again.
- A transactional id is not the one of that name in Kafka. Tools of Kafka's see it as
  `polylog-cursus:` and the name, and no client of Kafka's may take it (core/transactions/names.py).
- Who is fenced hears the code producer_fenced, whatever the command: clients look for that word,
  and the original's own text has a blank in it.
- A message that is sent again (same seqNum, key and payload, among the last 64) is staged once.
  Other than that seqNum is only kept: clients count by topic, or everything.
- Offsets in a transaction are a member's, who is asked for when they are sent and again before the
  commit: one that has lost its partitions hears GEN_MISMATCH, and can only abort.
- Nobody begins before a commit that is decided and on its way to its group: FETCH_OFFSET, CONSUME
  and STREAM wait for it, then hear coordinator_not_available. What a member commits meanwhile below
  what its transaction will is an offset_regression.
- How much a transaction had is not known after a restart: END_TXN sent again leaves the numbers
  out, TXN_STATUS says 0, as one client needs them.
- ` principal=… auth_token=…` behind the message of a TXN_PUBLISH is never stored: two clients write
  their credentials there, and all who read the record would read them.
- Credentials are taken and ignored, as there is no authentication. Access policies and event
  sourcing are refused by CREATE with their reason; a topic name may have no `=`.
- CREATE without partitions leaves those of a topic that exists as they are.
- LIST topic=T gives the number of partitions, which one client looks for in the answer.
"""

from broker.protocols.cursus.dispatch import Cursus

PROTOCOL = Cursus()
