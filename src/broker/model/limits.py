"""Every maximum of the broker, with its reason; the relations between them hold at import.

What a peer could make the broker allocate, queue or do is bounded by a name in this file, and so is
whatever waits, retries, queues or caches. Limits that an operator may move are settings
(model/settings.py) whose defaults stand here. Sizes are in bytes where the name says so, times
carry their unit, everything else is a count. Native modules read these names when they are
imported; where C needs a constant (the size of an array), the module asserts that it is the same.
"""

KIB = 1 << 10
MIB = 1 << 20

# --- frames and turns -----------------------------------------------------------------------------

# Largest request frame. Kafka allows 100 MiB; here a frame is held whole, and may come on top of
# UNFINISHED_FRAMES_BYTES_MAX. Raised by itself to MESSAGE_BYTES_MAX + FRAME_SLACK.
FRAME_BYTES_MAX = 16 * MIB
# What a frame may need beside its largest batch: header, topic names, other small batches.
FRAME_SLACK_BYTES = 1 * MIB
# What the codec takes for a frame unless it is told otherwise: Kafka's socket.request.max.bytes.
CODEC_FRAME_BYTES_MAX = 100 * MIB
# Largest record batch accepted by default: Kafka's 1 MiB and the 12 bytes of the oldest overhead.
MESSAGE_BYTES_MAX = 1 * MIB + 12
# What all connections together keep of frames that are under way, and of requests behind one that
# waits: above it they read on one after the other, each until its frame is whole, frames of a usual
# size (the next limit) apart from longer ones. In 160 MiB there is room for it, for one of each,
# and for the heads of 4 KiB that everyone may still send.
UNFINISHED_FRAMES_BYTES_MAX = 64 * MIB
ORDINARY_FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + FRAME_SLACK_BYTES
# Read at once from one connection, and its share of a turn; a larger frame gets a buffer of its
# exact size, and then reads into that.
RECEIVE_BYTES_PER_TURN = 256 * KIB
# Buffers of frames that came in pieces, kept for the next ones until the second is over.
FRAME_BUFFERS_BYTES_MAX = 16 * MIB
# Larger blocks of the heap are mappings that go when they are freed, and a longer free end of the
# heap goes back to the system.
HEAP_BLOCK_BYTES_MAX = 2 * MIB
HEAP_KEPT_BYTES_MAX = 4 * MIB
# Largest send per connection and turn, and largest single sendfile of it: a cold range must not
# hold the loop for long.
SEND_BYTES_PER_TURN = 2 * MIB
SENDFILE_BYTES_MAX = 1 * MIB
# Taken from epoll at once, and how often, before Python's event loop gets its turn.
EVENTS_PER_POLL = 256
POLLS_PER_TURN = 8
# How long a turn serves requests that arrive, and then, once more, those that were kept before: the
# rest waits for the next turn, so that no client holds up the others.
TURN_SHARE_US = 1_500
# How long Python begins requests, and how long callbacks and tasks go on, before the sockets are
# looked at again. What one of them does in a step comes on top: 2 ms at most.
PYTHON_SHARE_US = 500
# Containers that Python's garbage collector visits at once are about 3 times as many as the first
# times the second: 1 ms (server/garbage_collection).
GC_YOUNG_OBJECTS = 5_000
GC_YOUNG_COLLECTIONS = 2

# --- connections ----------------------------------------------------------------------------------

CONNECTIONS_MAX = 10_000
# From the first byte to enough of them to tell the protocol; slow-loris clients end here.
FIRST_REQUEST_SECONDS = 10
# A frame that has begun must end, and waiting replies must be read: a connection on which nothing
# moves for so long is closed, and so is one whose frame comes in more slowly than this rate.
STALLED_SECONDS = 30
FRAME_BYTES_PER_MS_MIN = 1
# The same, while somebody has waited for memory of frames for so long.
CONTENDED_FRAME_SECONDS = 5
CONTENDED_FRAME_BYTES_PER_MS_MIN = 1_000
# Kafka closes a silent connection after ten minutes; clients reconnect without an error.
CONNECTION_IDLE_MS = 600_000
# Clients of other dialects may be silent for as long as they like. Whether such a peer is still
# there is asked after so long, then so often; after so many questions it has vanished.
KEEPALIVE_IDLE_SECONDS = 300
KEEPALIVE_SECONDS = 30
KEEPALIVE_PROBES = 4
LISTEN_BACKLOG = 1024
# Taken in one turn of the loop, so that a storm of connects does not hold up the others.
ACCEPTS_PER_TURN = 64
# Connections that are refused are told in one line for so long, lest a storm fills the log; where
# the kernel has no descriptor for one, nobody is asked for so long whether it has by now.
REFUSALS_LOGGED_SECONDS = 60
ACCEPT_AGAIN_SECONDS = 1
# Ports that are tried for one that is free on all of a listener's addresses.
LISTEN_TRIES = 16
# What the kernel may hold of one connection's replies, as Kafka's socket.send.buffer.bytes. Left to
# itself it grows to megabytes, and a fetch of cached data goes through memory instead of the
# processor's cache: 0.61 CPU-s/GB at 1 MB per partition, 0.25 with this (medians, 5 and 3 rounds).
SEND_BUFFER_BYTES = 100 * KIB
# Replies that wait for a sync or for an earlier reply, per connection: then its requests stop. A
# place for a short one is some 300 bytes, so 3,000 small requests in flight stay honest.
WAITING_REPLY_BYTES_PER_CONNECTION = 1 * MIB
# Partitions that a connection has written to with acks=0 and whose records are not visible yet, 16
# bytes each: with more of them its next request waits until they are.
UNSEEN_PARTITIONS_PER_CONNECTION_MAX = 1_024
# Replies queued for a peer that does not read; above it the connection's requests stop. Runs of
# files are queued as what they are; of what is copied to memory there is less.
REPLY_QUEUE_BYTES_PER_CONNECTION = 64 * MIB
REPLY_MEMORY_BYTES_PER_CONNECTION = 2 * MIB
# Of all connections together. Where it is scarce nobody is served who has not taken what was there
# for him; beyond the last bound those are closed who have left theirs for longest.
REPLY_MEMORY_SCARCE_BYTES = 16 * MIB
REPLY_MEMORY_BYTES_MAX = 32 * MIB
# What the other dialects' answers may take together that are whole in memory before they are sent:
# the largest is made alone.
LONG_ANSWERS_BYTES_MAX = 15 * MIB
# Places for replies kept for the next requests, of all connections: some 300 KB.
REPLY_SLOTS_KEPT_MAX = 1_024

# --- what a request may contain -------------------------------------------------------------------

# What the arrays of one message may hold in all, as objects of some 60 bytes: an element counts as
# four of them, one that is a struct with each of its fields as one more. What the codec takes; and
# what a broker takes of a request, 50 MB with its answer: 58,000 partitions to commit.
MESSAGE_ELEMENT_WEIGHT = 4
MESSAGE_WEIGHT_MAX = 1 << 23
REQUEST_WEIGHT_MAX = 1 << 19
# What is read or written of a long message before others have a turn of the loop: 1 ms.
MESSAGE_WEIGHT_PER_STEP = 1 << 15
# Of a long request that has been answered, before others have a turn: 0.5 us each.
OBJECTS_FREED_PER_STEP = 1_000
# What requests of Kafka's clients that are not short may take together while they are processed, as
# objects, and their answers: a byte of them can become so many, and the rest of them waits for its
# turn. What waits stays bytes.
SHORT_REQUEST_BYTES = 1 * KIB
REQUEST_OBJECTS_PER_BYTE = 64
REQUEST_OBJECTS_BYTES_MAX = 32 * MIB
# The same of requests of every size that wait for the disk, a thread or, in Python, for records:
# above it the largest such fetches are answered at once. A fetch of 1,000 partitions takes 1 MiB.
PARKED_REQUESTS_BYTES_MAX = 64 * MIB
LONG_REQUESTS_WAITING_BYTES_MAX = 32 * MIB
CLIENT_ID_BYTES_MAX = 255
TOPIC_NAME_BYTES_MAX = 249  # Kafka's: a folder name must hold it, a dash and a partition
STRING_BYTES_MAX = 32_767  # Kafka's: an int16 length, of compact strings too
ERROR_TEXT_CHARS_MAX = 1_000  # of what an answer says about an error: it may quote the request
TAGS_PER_STRUCT_MAX = 64
PARTITIONS_PER_TOPIC_MAX = 10_000
# Descriptors, mappings and 300 bytes of hot state each.
PARTITIONS_PER_BROKER_MAX = 50_000
# What Metadata says of a partition, kept for the next topic and request: 0.4 KB each.
METADATA_PARTITIONS_CACHED = 1_024
# Answers of all topics, kept until a topic changes: at 50,000 partitions one has some 2 MB.
SHARED_ANSWERS_BYTES_MAX = 8 * MIB
# Partitions in one answer of DescribeTopicPartitions, which goes on where it ended (KIP-966).
DESCRIBED_PARTITIONS_MAX = 2_000
# Partitions of one request that the native paths have a table for; a larger Produce goes to Python,
# a larger Fetch is refused.
NATIVE_PRODUCE_PARTITIONS_MAX = 1_024
NATIVE_FETCH_PARTITIONS_MAX = 10_000
# Made natively of an answer to ListOffsets: some 600 partitions. A longer one is made by Python.
NATIVE_LIST_OFFSETS_ANSWER_BYTES_MAX = 16 * KIB
# Partitions that Python's Fetch reads before others have a turn of the loop: some 10 us each, and
# 40 where there are records.
FETCH_PARTITIONS_PER_STEP = 32
RECORD_BYTES_MIN = 7  # an empty record of magic 2: a batch of n bytes holds at most n / 7
# Decompression is always bounded. Four times the largest batch serves honest compressors; a bomb
# (zstd 32,000:1) stops there.
DECOMPRESSION_RATIO_MAX = 4
DECOMPRESSED_BYTES_MIN = 16 * MIB
# What the loop unfolds of a Produce request's batches to look at their records, 1 ms; longer ones
# are unfolded beside it. gzip takes three times as long for a byte as the other codecs do.
PRODUCE_DECOMPRESSED_BYTES_MAX = 1 * MIB
PRODUCE_DECOMPRESSED_GZIP_WEIGHT = 3
# Blocks of one of them: each takes up to 1 us, and the usual ones have 32 KiB or more.
PRODUCE_DECOMPRESSED_PIECES_MAX = 256
# Records of one refused batch that are named in the answer: of a million, the first ones will do.
RECORD_ERRORS_MAX = 100
# Batches unfolded and folded anew at the same time, each whole in memory: one leaves the loop its
# processor on a machine of two.
RECOMPRESSION_THREADS = 1
# Bytes of batches that wait for that, of all connections; a producer beyond it is told to try
# again. A second's work or more, and what a hundred producers send at once.
RECOMPRESSION_WAITING_BYTES_MAX = 128 * MIB
# Messages of magic 0 and 1 of one request that the loop converts: 0.5 ms at most. A request with
# more, and what is compressed, is converted beside the loop.
OLD_MESSAGES_BYTES_MAX = 1 * MIB
# What is read of a log at once for an old consumer; after so many bytes or batches of conversion
# others have their turn of the loop: 0.5 ms. Larger batches are converted beside the loop.
OLD_FETCH_BYTES_PER_TURN = 256 * KIB
OLD_FETCH_BATCHES_PER_TURN = 32
# What such a fetch returns beside its first batch, however much is asked for: a reply that Python
# has made is copied a few times in one turn of the loop, 1.5 ms per MiB (measured).
OLD_FETCH_BYTES_MAX = 2 * MIB
# Largest batch that can be, whoever makes it: sums of a few sizes stay within 32 bits.
BATCH_BYTES_MAX = 1 << 30
# What the codec unfolds in one call when the caller names no limit of its own.
CODEC_BYTES_MAX = 256 * MIB
# Lazy records are decoded so many bytes at a time, or one batch: little enough for the cache.
RECORDS_CHUNK_BYTES = 256 * KIB
# Blocks of one compressed input. An honest megabyte that was flushed after each record of 100 bytes
# has 10,000; so many empty ones, 1 to 3 us each, end in 50 ms. More of them only with the bytes for
# it: what is large and dense may have more blocks, too.
COMPRESSED_PIECES_MIN = 16_384
COMPRESSED_BYTES_PER_PIECE = 1 * KIB
COMPRESSED_FRAME_PIECES = 16  # a frame or member takes as long as so many blocks
# What a zstd frame may make its decoder keep of what went before, as far as the limit on the
# content allows less: the 8 MiB that RFC 8878 asks every decoder to support.
ZSTD_WINDOW_BYTES_MAX = 8 * MIB
FETCH_BYTES_MAX = 55 * MIB  # Kafka's fetch.max.bytes
FETCH_WAIT_MS_MAX = 300_000
FETCH_SESSIONS_MAX = 1_000
# Partitions that all fetches hold between two requests or while they wait, some 200 bytes each.
# Beyond it there are no new sessions, and a fetch without one does not wait.
FETCH_PARTITIONS_HELD_MAX = 200_000
FETCH_SESSION_IDLE_MS = 120_000  # Kafka's: a session unused for so long may be evicted

# Of a log that is read record by record, or written so: bytes of one read, and how many records one
# turn of the loop makes objects of, or batches; about 2 ms.
READ_BYTES_PER_STEP = 64 * KIB
RECORDS_READ_PER_TURN = 4_000
# What the loop unfolds of a batch for such a reader, 0.5 ms; what may be unfolded beside it, one
# batch at a time, however well it was compressed: its columns take up to three times as much.
READ_DECOMPRESSED_BYTES_PER_TURN = 256 * KIB
READ_DECOMPRESSED_BYTES_MAX = 64 * MIB
RECORDS_WRITTEN_PER_TURN = 20_000

# --- V1 -------------------------------------------------------------------------------------------

# A command, before its newline: what the original's buffer of 64 KiB has room for.
V1_REQUEST_BYTES_MAX = 65_535
# Of records in one answer, as they stand in it; a record that is longer comes alone. And how many
# of them, with the batches that are stepped over, so that small ones do not hold up the loop: 2 ms.
V1_CONSUME_BYTES_MAX = 1 * MIB
V1_CONSUME_RECORDS_MAX = 10_000
# A value that comes alone, as it stands in the line. A longer one is stepped over, which the line
# says with its offset and size.
V1_LONG_VALUE_BYTES_MAX = LONG_ANSWERS_BYTES_MAX
# Of one value, what is made fit for a line in a turn: 1 ms.
V1_VALUE_BYTES_PER_TURN = 256 * KIB
# What the native path reads of a log at once, and for one answer; what needs more is answered in
# steps.
V1_READ_BYTES_PER_STEP = 256 * KIB
V1_READ_BYTES_MAX = 2 * MIB
# Partitions of which followers or a role are known, 0.5 KB each; brokers that have registered.
V1_REPLICATED_PARTITIONS_MAX = 10_000
V1_BROKERS_MAX = 1_000

# --- RustLog --------------------------------------------------------------------------------------

# Its frames, in both directions (rustlog.txt, "Frame Structure").
RUSTLOG_FRAME_BYTES_MAX = 10_485_760
# A record that the binary answer to a fetch has room for: 17 bytes are around it there, one more
# than around one that is sent to a topic whose name has one byte.
RUSTLOG_RECORD_BYTES_MAX = RUSTLOG_FRAME_BYTES_MAX - 17
# Largest batch of a topic that is created through its door: a record that fills a frame, and what
# is around it.
RUSTLOG_MESSAGE_BYTES_MAX = RUSTLOG_FRAME_BYTES_MAX + 1 * KIB
# What a JSON request may have beside its records: it becomes Python objects.
RUSTLOG_ENVELOPE_BYTES_MAX = 64 * KIB
# Read of a JSON request, or written of an answer, before others have a turn of the loop: 2 ms.
RUSTLOG_BYTES_PER_STEP = 1 * MIB
# Records of one JSON request: each has its offset in the answer, of up to 20 digits.
RUSTLOG_JSON_RECORDS_MAX = 400_000
# The native fetch reads no more of a log in one turn; for more there are steps.
RUSTLOG_NATIVE_FETCH_BYTES_MAX = 1 * MIB
# Its clients do not ask again: they wait so long for a coordinator that loads, and it is looked at
# so often.
GROUP_READY_WAIT_MS = 5_000
GROUP_READY_POLL_MS = 20
# Committed offsets of which the lag is remembered for its metrics.
RUSTLOG_LAGS_MAX = 1_000

# --- Cursus ---------------------------------------------------------------------------------------

# Largest frame that its document and clients allow, and what a compressed one may unfold to.
CURSUS_FRAME_BYTES_MAX = 64 * MIB
# Records in one answer: its newer clients read no frame of 16 MiB. A larger record, as it stands in
# a frame, is refused when it is written here; one that another protocol has written is not sent.
CURSUS_CONSUME_BYTES_MAX = 15 * MIB
CURSUS_RECORD_BYTES_MAX = CURSUS_CONSUME_BYTES_MAX
# Largest batch of a topic that is created here: the largest record with what is around it, the
# names of its headers and 65,535 bytes of each text among them.
CURSUS_MESSAGE_BYTES_MAX = CURSUS_RECORD_BYTES_MAX + 1 * KIB
CURSUS_CONSUME_RECORDS_MAX = 8_192
# Read of a log at once, or one batch, where frames are made of what is stored: 0.1 ms.
CURSUS_READ_BYTES_PER_STEP = 128 * KIB
# A stream's frame may be full earlier; none is made while more than so much waits for the socket.
CURSUS_STREAM_FRAME_BYTES_MAX = 1 * MIB
CURSUS_STREAM_UNSENT_BYTES_MAX = 256 * KIB
# What all streams together keep of batches that were unfolded for them and are not sent: more of it
# is unfolded again. It is what the largest batch may unfold to, and as much again.
CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX = 128 * MIB
# A sign of life on a stream with nothing to send: some clients read with a timeout of 5 s.
CURSUS_KEEPALIVE_MS = 1_900
CURSUS_BATCH_RECORDS_MAX = 100_000
# What stands before the message of a text command: commits of 10,000 partitions have 200 KB.
CURSUS_COMMAND_BYTES_MAX = 256 * KIB
# A compressed body is unfolded on the loop where it is short and cannot become long.
CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX = 256 * KIB
# A longer batch is left to Python, which takes it apart step by step: 1 ms of the loop.
CURSUS_FAST_BATCH_BYTES_MAX = 1 * MIB
# Records of a batch that are made objects of before others have their turn, about 2 ms.
CURSUS_ROWS_PER_TURN = 2_000
# Runs of sequences in one batch to an idempotent topic; an honest one has one.
CURSUS_RUNS_PER_BATCH_MAX = 1_000
CURSUS_PRODUCER_ID_BYTES_MAX = 255
# A stand-in for the largest batch of a producer of which only a short last one was seen.
CURSUS_BATCH_RECORDS_ASSUMED = 100
# A transaction that its producer leaves open is aborted: the timeout that Kafka's producers ask
# for, less where transaction.max.timeout.ms is less. Its clients have no word for it.
CURSUS_TRANSACTION_TIMEOUT_MS = 60_000
# An END_TXN is answered once its markers are written, and INIT_PRODUCER_ID once the transaction of
# the instance before has ended; not for longer, lest a client of 5 s gives up.
CURSUS_TRANSACTION_END_WAIT_MS = 3_000
# Of how many transactions it is remembered what they have staged, those that have ended last too;
# and of how many of their last messages, so that one that is sent again is not stored again.
CURSUS_TRANSACTIONS_REMEMBERED = 2_000
CURSUS_TRANSACTION_MESSAGES_REMEMBERED = 64
# Answers to acks=0 that nobody reads: no more are sent while so much waits in front of them. The
# kernel takes that and what one more turn brings, so that none is sent in part.
UNREAD_ANSWER_BYTES_MAX = 16 * KIB
# Request line and headers of a health check.
HTTP_HEAD_BYTES_MAX = 8 * KIB

# --- producers ------------------------------------------------------------------------------------

# Producers that a partition, and all partitions together, remember to recognise duplicates. They
# are forgotten after producer.id.expiration.ms; those that are silent for the longest time make
# room before that. One takes less than 300 bytes.
PRODUCER_IDS_PER_PARTITION_MAX = 10_000
PRODUCER_IDS_MAX = 100_000
PRODUCER_BATCHES_REMEMBERED = 5  # Kafka's: clients keep at most five in flight
PRODUCER_ID_BLOCK = 1_000  # Kafka's: one durable write per thousand ids

# Batches of one named producer that may be ahead of one that is still to come, as its clients keep
# five in flight that overtake each other; and gaps in its sequences that are remembered.
NAMED_PRODUCER_BATCHES_AHEAD = 5
# Records of a log that are read, at a load, before others have their turn.
NAMED_PRODUCERS_LOADED_PER_TURN = 2_000

# --- groups ---------------------------------------------------------------------------------------

GROUPS_MAX = 10_000
# All groups together, with their members' subscriptions and committed offsets, may take one part in
# so many of the memory that the process may have (server/memory.py), estimated from below: what a
# group takes, a member beside its words, a member id that was handed out, a name that a member is
# subscribed to beside its letters, a partition that it has, a committed offset beside its metadata.
GROUPS_MEMORY_SHARE = 8
GROUP_BYTES = 2 * KIB
MEMBER_BYTES = 2 * KIB
HANDED_OUT_ID_BYTES = 512
SUBSCRIBED_NAME_BYTES = 64
ASSIGNED_PARTITION_BYTES = 128
OFFSET_BYTES = 384
# Kafka takes any that fits a request, 32 KiB; it stands in every record and log line of its group.
GROUP_ID_BYTES_MAX = 1 * KIB
MEMBERS_PER_GROUP_MAX = 1_000
# Subscriptions and assignments of all members of a group together, held in memory and written to
# __consumer_offsets as one record.
GROUP_METADATA_BYTES_MAX = 1 * MIB
GROUP_PROTOCOLS_PER_MEMBER_MAX = 64
# Members that were given an id and have not joined with it yet (KIP-394).
PENDING_MEMBERS_PER_GROUP_MAX = MEMBERS_PER_GROUP_MAX
# Kafka's NewMemberJoinTimeoutMs: a member that joins for the first time may wait so long for the
# others. Its session cannot end it before, because it cannot heartbeat yet.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
# V1's: its members give no session timeout.
ASSIGNED_SESSION_TIMEOUT_MS = 10_000
# Members of a group that the broker assigns at once: each join assigns all anew and writes them in
# one record, in one turn: 1.5 ms for so many.
ASSIGNED_MEMBERS_MAX = 200
# Of groups.json and offsets.json, each: what a start reads of them.
V1_FILE_BYTES_MAX = 64 * MIB
# They are written at most so often, and looked for what has changed in such steps of a turn.
V1_FILES_SECONDS = 1
V1_GROUPS_PER_STEP = 16
V1_OFFSETS_PER_STEP = 1_000
# Offsets that are brought into the log in one batch at a start; batches and groups that wait for
# the disk at once; and how long a start waits for the next of them.
V1_OFFSETS_PER_COMMIT = 500
V1_LOADED_AT_ONCE = 64
V1_LOAD_SECONDS = 60
# A line in a segment of V1's original server: its commands end at 64 KiB, and the prefix of a line
# that is stored can be longer than theirs.
V1_LINE_BYTES_MAX = 128 * KIB
# What `broker import` sends at once, and says of damage in its report; each is told as it is found.
IMPORT_BATCH_BYTES = 512 * KIB
IMPORT_BATCH_RECORDS = 2_000
IMPORT_OFFSETS_PER_REQUEST = 1_000
IMPORT_DAMAGES_REPORTED = 1_000
# A command gives up a broker that does not answer, and asks again for what a start makes it wait.
CLIENT_TIMEOUT_SECONDS = 30
CLIENT_RETRY_SECONDS = 0.1
# Within so long a command has an answer of its broker, or says that there is none.
CLIENT_REACH_SECONDS = 2
# For how long our client tries again, unless told otherwise: a broker starts within it.
CLIENT_GIVE_UP_SECONDS = 15
# Connections to one broker that wait for their next user, and for how long one is worth keeping.
CLIENT_IDLE_CONNECTIONS_MAX = 4
CLIENT_IDLE_SECONDS = 60
# What one Fetch of ours asks for: smaller ones cost more of Python, larger ones gain nothing.
CLIENT_FETCH_BYTES = 4 * MIB
CLIENT_FETCH_BYTES_MIN = 64 * KIB
CLIENT_FETCH_WAIT_MS = 500
# Rows of one Arrow batch for Spark: a thousand cost a third more each, a million take memory.
PIPELINE_BATCH_ROWS = 65_536
# Ranges of offsets of a trigger are read by one task when together they have no more.
PIPELINE_SHARED_TASK_OFFSETS = 2_000
# What a worker of Spark's keeps of the memory that it has freed; blocks that are larger than the
# second, glibc's own maximum, are given back all the same.
WORKER_FREE_BYTES = 64 * MIB
WORKER_BLOCK_BYTES = 32 * MIB
# Compressed batches that are decoded at once: unfolded they are many times as large.
PIPELINE_COMPRESSED_BYTES = 512 * KIB
# One Produce of ours is no larger: a broker holds it whole, and without an answer it is sent again.
CLIENT_PRODUCE_BYTES = 8 * MIB
# Members, topics and partitions that one turn looks at to assign a consumer group, about
# 2 ms. A larger group is assigned in several turns, so long apart.
ASSIGNMENT_WORK_PER_SLICE = 2_000
ASSIGNMENT_SLICE_INTERVAL_MS = 1
# Members whose target one batch of records changes.
TARGETS_PER_BATCH = 200
# Names that one turn matches with patterns: 5 us each. After topics have changed, patterns are
# looked at again, at most so often.
REGEX_MATCHES_PER_SLICE = 400
REGEX_COMPILE_WORK = 20  # what it counts for to make a pattern ready
REGEX_REFRESH_INTERVAL_MS = 1_000
REGEX_BYTES_MAX = 4_096
# Names of topics that one member of the consumer protocol is subscribed to: one of its records. Of
# Kafka's longest names a thousand.
SUBSCRIBED_NAMES_BYTES_MAX = 256 * KIB
REGEX_MEMORY_BYTES_MAX = 1 * MIB
# Where subscriptions differ, how often an assignor goes over all topics to even out: each time
# there is less to move, and what is left then differs by a few partitions.
ASSIGNMENT_BALANCE_PASSES_MAX = 8
OFFSET_METADATA_BYTES_MAX = 4_096
# Committed offsets held by one group.
OFFSETS_PER_GROUP_MAX = 100_000
# Kafka's offsets.retention.check.interval.ms.
OFFSETS_EXPIRY_INTERVAL_MS = 600_000
# Groups and offsets that are looked at, and records that remove them, before others have a turn of
# the loop: an expiry goes through all groups, a deletion through all offsets of one.
REMOVALS_PER_STEP = 128
# Groups that are listed in one step of a turn: 2 us each.
GROUPS_LISTED_PER_STEP = 16
# Kafka takes any that fits a request; it stands in every record of its transactions.
TRANSACTIONAL_ID_BYTES_MAX = 1 * KIB
# Transactional ids known, and transactions open at once (reliability.md 4.3).
TRANSACTIONAL_IDS_MAX = 10_000
OPEN_TRANSACTIONS_MAX = 1_000
# Kafka's transaction.remove.expired.transaction.cleanup.interval.ms.
TRANSACTIONS_EXPIRY_INTERVAL_MS = 3_600_000
# Transactional ids that are looked at, after a load or for their expiry, in one step of a turn.
TRANSACTIONS_PER_STEP = 64
# An end that could not be decided, or markers that could not be written, are tried again.
TRANSACTION_RETRY_MS = 1_000
# Kafka's add.partitions.to.txn.retry.backoff.max.ms.
CONCURRENT_TRANSACTION_WAIT_MS = 100
# Markers that are appended, and partitions that are opened to a transaction or synced at its end,
# before the loop serves others: some 20 us each.
MARKERS_PER_TURN = 128
# Groups and transactional ids of which it is remembered to which partition they hash, and how long
# such a name can be: a longer one names nothing, and is neither hashed nor remembered.
COORDINATOR_KEYS_REMEMBERED = 4_096
COORDINATOR_KEY_CHARS_MAX = max(GROUP_ID_BYTES_MAX, TRANSACTIONAL_ID_BYTES_MAX)
# How much of a log one step of loading reads and replays, some 10 us a record; between two steps
# the loop serves others.
LOAD_BYTES_PER_STEP = 64 * KIB
LOAD_RECORDS_PER_STEP = 128
# Replies that one coordinator partition gives at once: a rebalance answers all members of a group,
# and each answer is 30 us of the loop.
REPLIES_PER_TURN = 64
# Decisions that let time pass or topics go, before the loop serves others: each appends a batch.
COORDINATOR_DECISIONS_PER_TURN = 32
# So many records or replies of one decision weigh as much as another decision.
COORDINATOR_DECISION_RECORDS = 8
# One of so many decisions of a turn is kept for what is not a deadline.
COORDINATOR_WORK_SHARE = 4
# A slice of a computation (ASSIGNMENT_WORK_PER_SLICE, REGEX_MATCHES_PER_SLICE) weighs as much as so
# many decisions: no other begins after it in the turn.
COORDINATOR_SLICE_DECISIONS = 32
# Offsets that one command commits: 5 us each. A request with more of them is several commands.
OFFSETS_COMMITTED_PER_STEP = 150
# Offsets of a group that are looked up in one step of a turn: 0.3 us each.
OFFSETS_FETCHED_PER_STEP = 256
# Groups that stand in one step of an answer: 2 us each.
GROUPS_ANSWERED_PER_STEP = 500
# Groups that one request fetches offsets of or deletes, before others have a turn of the loop.
GROUPS_ASKED_PER_TURN = 16
# A partition that could not be opened or loaded is not tried again for every request.
LOAD_RETRY_MS = 1_000

# Offsets of records that a load could not read, in the line of the log that counts them.
LOST_OFFSETS_SHOWN = 10

# Of an id or a reason that came from a client, in a line of the broker's log.
NOTE_CHARS_MAX = 255
# Lines of a kind of coordinator (reliability.md 4.3), before they are only counted.
NOTES_PER_SECOND_MAX = 100
# Lines of any event of the log in a second, before they are only counted; and events in a second
# that are counted apart, should a message ever hold what a client sent.
LOG_LINES_PER_SECOND_MAX = 100
LOG_EVENTS_PER_SECOND_MAX = 1_000

# --- logs -----------------------------------------------------------------------------------------

# Batches of one turn share a write, up to so many bytes; larger ones are written at once, without
# the copy. Between turns no log keeps a buffer; all of them keep one.
STAGED_BYTES_MAX = 64 * KIB
STAGED_BATCH_BYTES_MAX = 32 * KIB
STAGED_BYTES_MIN = 4 * KIB
# Memory in which a dialect's records become a batch, kept from one request to the next.
PLAIN_BATCH_BYTES_KEPT = 256 * KIB
# Records that are put into one batch in one go: 2 ms of the shortest.
RUN_RECORDS_PER_BATCH = 100_000
# A log that takes more than a few records reserves a tail for more; it starts small and doubles
# while the partition is written to.
TAIL_RESERVE_AFTER_BYTES = 64 * KIB
TAIL_RESERVE_BYTES_MIN = 64 * KIB
TAIL_RESERVE_BYTES_MAX = 16 * MIB
# Under `os`, a file that took so much since it was opened is filled with zeros so far ahead before
# a short write; longer ones are not cheaper by it. More at once makes the shortest dearer again.
TAIL_FILL_BYTES = 64 * KIB
TAIL_FILL_AFTER_BYTES = 1 * MIB
TAIL_FILL_WRITE_BYTES_MAX = 12 * KIB
INDEX_INTERVAL_BYTES = 4_096
INDEX_BYTES_MAX = 10 * MIB
# Newest entries of an index, held in memory; the older half goes when it is full.
INDEX_ENTRIES_HELD_MAX = 1_024
# An idle log keeps so many; with more it writes its index, which takes longer than closing a file.
INDEX_ENTRIES_HELD_AT_REST = 16
# An older part of an index that was searched in its file so often is read into memory while its
# segment is open, as long as all such memory together is below the bound.
INDEX_MISSES_BEFORE_LOAD = 4
INDEX_MEMORY_BYTES_MAX = 64 * MIB
# Descriptors that neither connections nor segments take: listeners, the metadata store, small
# files, folders that are synced, the compactor's pipes. And the fewest that a broker starts with.
SPARE_DESCRIPTORS = 64
DESCRIPTORS_MIN = 256
# Segments that are open at the same time where that is all; half of what there is, less those to
# spare, otherwise. Unused ones close after one to two ticks, for so long a second.
OPEN_SEGMENTS_MIN = DESCRIPTORS_MIN // 2 - SPARE_DESCRIPTORS
OPEN_SEGMENT_TICK_SECONDS = 30
# Full segments that one log keeps open until they are synced; where an eighth of the open segments
# is less, that. More would not be synced sooner: the active segment grows until then.
UNSEALED_SEGMENTS_MAX = 16
CLOSE_IDLE_MICROSECONDS = 2_000
# Places at which readers of a segment stopped, and most likely go on.
READ_HINTS_PER_SEGMENT = 8
SEGMENT_BYTES_MAX = (1 << 31) - 1  # index positions are int32
# fdatasync in flight, each of another file: 8 gave 1.4x the syncs per second of 4 (measured).
SYNC_THREADS = 8
# Logs that a start recovers at once: so that a long tail does not hold up the others. More threads
# only take Python's lock from each other.
RECOVERY_THREADS = 2
# How long one thread may keep Python's lock from another while logs are recovered.
LOADING_SWITCH_SECONDS = 0.0002
# Recovered logs wait for a sync that they share, so long or until so many wait.
RECOVERED_WAIT_MS = 50
# Each has files open until it is synced.
RECOVERED_LOGS_MAX = 512
# So many logs are synced one by one, more by one call for the whole file system.
LOGS_SYNCED_ONE_BY_ONE_MAX = 16
# Recovery reads segments in pieces; a piece must hold the largest batch.
RECOVERY_READ_BYTES = 4 * MIB
CHECKPOINT_SECONDS = 60  # Kafka's log.flush.offset.checkpoint.interval.ms

# --- compaction -----------------------------------------------------------------------------------

# Read at once of a segment by the process that compacts, doubled for a batch that is larger.
COMPACTION_READ_BYTES = 4 * MIB
# Kafka's log.cleaner.dedupe.buffer.size: 24 bytes a place, three quarters of them taken.
COMPACTION_MAP_BYTES = 128 * MIB
COMPACTION_MAP_BYTES_MIN = 1 * MIB
COMPACTION_MAP_BYTES_MAX = 16 * 1024 * MIB
# A child that says nothing for so long is ended: it reports each piece, which takes milliseconds.
COMPACTION_STALLED_SECONDS = 120
COMPACTION_NICE = 10
# Segments that become one, however small they are: their files are removed in one go.
COMPACTION_GROUP_SEGMENTS_MAX = 256
# What a batch may unfold to in that process: it was stored as it came, and nobody else unfolds it.
COMPACTION_DECOMPRESSED_BYTES_MAX = 128 * MIB
# One line of a child's report: base offsets of the segments of a group, 20 digits each.
COMPACTION_LINE_BYTES_MAX = 16 * MIB

# --- upkeep of logs -------------------------------------------------------------------------------

# How often files that wait to be removed are looked at; retention itself has its own interval.
RETENTION_TICK_SECONDS = 1
# Segments that retention looks at, takes off or renames before others have a turn of the loop or of
# the I/O thread: less than 1 ms of either with the GIL, and some 20 ms of the disk.
RETENTION_SEGMENTS_PER_STEP = 64
LOGS_CHECKED_PER_STEP = 32
# Logs of one topic that are told of an altered configuration at once: 6 us each.
LOGS_CONFIGURED_PER_STEP = 256
# Topics whose configuration is made anew at once when the broker's was altered: 0.1 ms each.
TOPICS_CONFIGURED_PER_STEP = 16
# Resources whose keys are all described before others have their turn: up to 0.5 ms each.
CONFIGS_DESCRIBED_PER_STEP = 4
# Names of a request that are put in order or looked for among each other, before others: up to 1 us
# each.
NAMES_READ_PER_STEP = 1_000
# Producers of a partition that stand in one step of an answer: 1 us each.
PRODUCERS_DESCRIBED_PER_STEP = 1_000
# Partitions in which one request looks up a time or an end, before others: 20 us each, and more
# where a batch has to be unfolded for it.
OFFSETS_FOUND_PER_STEP = 8
# Partitions that one request names or is answered with, before others: up to 8 us each.
PARTITIONS_ANSWERED_PER_STEP = 200
# Files of deleted topics that are removed before the I/O thread does something else; and deleted
# topics that wait for file.delete.delay.ms, before the first of them need not wait any longer.
FILES_REMOVED_PER_STEP = 64
FOLDERS_RENAMED_PER_STEP = 256
LOGS_DELETED_PER_STEP = 256  # before others have a turn of the loop
DELETED_TOPICS_WAITING_MAX = 1_000
FOLDER_NAME_BYTES_MAX = 255  # the file system's

# --- pipelines on Spark ---------------------------------------------------------------------------

# How long a `java` may take to say its version.
JAVA_VERSION_SECONDS = 20
# Rows that the sink gathers before it sends them: some batches for each of a few partitions. With
# what records have around them, and a batch of Spark's more, they fit into one Produce.
SINK_CHUNK_BYTES = 6 * MIB
# Kafka's delivery.timeout.ms: a broker that was killed is back by then.
SINK_GIVE_UP_MS = 120_000
# How long one task of an exactly-once sink may take, unless told otherwise. As long, readers of
# committed records wait for one that was killed and does not come back.
SINK_TRANSACTION_MS = 300_000
# A topic of markers that the sink makes; a record is 200 bytes, and a new worker reads a partition.
SINK_MARKER_PARTITIONS = 4
SINK_MARKER_SEGMENT_BYTES = 16 * MIB
# Queries whose markers a worker remembers, so that it reads only what is new.
SINK_QUERIES_REMEMBERED = 16
# How often a sink that is slowed down sends: chunks hold as many rows as it may write meanwhile.
SINK_PACE_MS = 250
# How often a snapshot begins a partition again whose files were replaced meanwhile, and the largest
# manifest that is read: of a million segments.
SNAPSHOT_TRIES = 50
MANIFEST_BYTES_MAX = 256 * MIB
# What one task of Spark reads of a log's files, unless told otherwise, and at least; what it
# decodes at once.
PIECE_BYTES = 128 * MIB
PIECE_BYTES_MIN = 64 * KIB
SCAN_CHUNK_BYTES = 4 * MIB
SOUNDNESS_CHUNK_BYTES = 8 * MIB
# A check of a segment: read at once, so that CRC and hash find it in the processor's cache; damages
# that are told apart, those behind are one; bytes before others' work has its turn.
SEGMENT_CHECK_PIECE_BYTES = 256 * KIB
SEGMENT_CHECK_DAMAGES_MAX = 1_000
SEGMENT_CHECK_STEP_BYTES = 8 * MIB
# Of an index file that is compared with its log: twice what segment.index.bytes is by default.
INDEX_READ_BYTES_MAX = 20 * MIB
# Of a scrub: the most segments whose digests wait to be taken, the others get theirs from the scrub
# itself; how often it looks for segments that are due; what it reads before others' work has its
# turn, and how much in a second; how often a segment is read that is replaced meanwhile.
DIGESTS_WAITING_MAX = 1_000
SCRUB_LOOK_SECONDS = 60
SCRUB_STEP_BYTES = 1 * MIB
SCRUB_BYTES_PER_SECOND = 20 * MIB
VERIFY_TRIES = 3
PROGRESS_MS = 2_000  # between two words about how far a long look is
# What `segment dump` shows of a damaged or compressed batch: it is unfolded to so much at most.
DUMP_READ_BYTES = 1 * MIB
# Of an archive: a file of the size that query engines like; offsets of a task and of a commit,
# unless told otherwise; days whose files a task has open at once.
ARCHIVE_FILE_BYTES = 128 * MIB
ARCHIVE_TASK_RECORDS = 1_000_000
ARCHIVE_COMMIT_RECORDS = 8_000_000
ARCHIVE_FILES_OPEN = 16
# Files that no commit has named for so long belong to a run that was killed.
ARCHIVE_ORPHAN_HOURS = 7 * 24
# Offsets of a partition that a replay writes in one transaction, and for how long one may go on.
REPLAY_SLICE_RECORDS = 2_000_000
REPLAY_SLICE_SECONDS = 60
DEDUPE_BATCH_RECORDS = 2_000_000  # offsets of a batch, unless told otherwise

# --- room on the disk -----------------------------------------------------------------------------

# Of the levels from LOW to READ_ONLY (core/disk_space.py): percent of the bytes or inodes that are
# free where one begins, and what that is at most. A disk of 10 TB is not full with 200 GB free.
DISK_LEVELS = ((15, 1 << 62), (8, 1 << 62), (5, 1 << 30), (2, 400 * MIB))
DISK_INODES = (4_096, 1_024, 256, 32)
# So much of where it begins has to be free for a better level.
DISK_LEVEL_LEFT_AT = 1.25
DISK_LOOK_SECONDS = 1
# How many looks a disk without room counts as full that says it has some: a quota, most likely.
DISK_HOLD_LOOKS_MAX = 30
# Room for commits, deletes and metadata while clients' records are refused, and the part of it that
# is for deletes: shares of the disk, and of the reserve.
DISK_RESERVE_BYTES_MAX = 64 * MIB
DISK_RESERVE_SHARE = 16
DISK_LAST_RESERVE_SHARE = 8
# What a start after an unclean stop takes from a reserve where the disk has no more: for a commit
# of the metadata store, and the small files and indexes that recovery writes.
START_FREE_BYTES = MIB
# How often retention looks at logs while the disk is short of room.
TRIM_INTERVAL_MS = 5_000

# --- metadata, housekeeping, stopping -------------------------------------------------------------

METADATA_OPS_PER_TRANSACTION_MAX = 120  # etcd refuses 129 (measured)
METADATA_KEY_BYTES_MAX = 1_024
METADATA_VALUE_BYTES_MAX = 1 * MIB  # etcd refuses 1.6 MB (measured)
# How long a start waits for a program that has the metadata store locked.
METADATA_BUSY_SECONDS = 1
# Groups with a configuration of their own; what a group's name takes of a metadata key.
GROUP_CONFIGS_MAX = 10_000
GROUP_CONFIG_NAME_BYTES_MAX = 1_000
# A wall clock that is further away from where CLOCK_BOOTTIME has it has stepped: nothing is deleted
# by age then. It may be slewed by so much, twice what the kernel does; what goes faster adds up.
CLOCK_STEP_MS = 300_000
CLOCK_SLEW_PPM_MAX = 1_000
# A machine that was off for longer is told apart from a step by an operator alone: a night.
CLOCK_DOWN_MS_MAX = 12 * 3_600_000
# How often stale connections are looked for and what logs did is written down.
HOUSEKEEPING_SECONDS = 1
# A clean stop: connections get so long to take their replies, then the process ends anyway.
STOP_SECONDS = 10


def frame_bytes_max(setting: int, message_bytes_max: int) -> int:
    """The frame limit in force: the setting, but never less than the largest batch needs."""
    return max(setting, message_bytes_max + FRAME_SLACK_BYTES)


def decompressed_bytes_max(message_bytes_max: int) -> int:
    """How far one batch may unfold before it is refused."""
    return max(DECOMPRESSED_BYTES_MIN, DECOMPRESSION_RATIO_MAX * message_bytes_max)


def compressed_pieces_max(size: int) -> int:
    """How many blocks a compressed input of `size` bytes may have."""
    return COMPRESSED_PIECES_MIN + size // COMPRESSED_BYTES_PER_PIECE


# A limit that another one makes unreachable is a mistake in this file.
assert MESSAGE_BYTES_MAX + FRAME_SLACK_BYTES <= FRAME_BYTES_MAX
assert RECEIVE_BYTES_PER_TURN <= FRAME_BYTES_MAX < UNFINISHED_FRAMES_BYTES_MAX
assert FRAME_BUFFERS_BYTES_MAX < UNFINISHED_FRAMES_BYTES_MAX
assert SENDFILE_BYTES_MAX <= SEND_BYTES_PER_TURN <= REPLY_QUEUE_BYTES_PER_CONNECTION
assert REPLY_QUEUE_BYTES_PER_CONNECTION >= FETCH_BYTES_MAX
assert REPLY_MEMORY_BYTES_PER_CONNECTION < REPLY_MEMORY_SCARCE_BYTES < REPLY_MEMORY_BYTES_MAX
assert REQUEST_OBJECTS_BYTES_MAX <= PARKED_REQUESTS_BYTES_MAX
assert REQUEST_WEIGHT_MAX < MESSAGE_WEIGHT_MAX
assert OLD_FETCH_BYTES_PER_TURN <= OLD_FETCH_BYTES_MAX <= FETCH_BYTES_MAX
assert HOUSEKEEPING_SECONDS < CONTENDED_FRAME_SECONDS < STALLED_SECONDS
assert FRAME_BYTES_PER_MS_MIN < CONTENDED_FRAME_BYTES_PER_MS_MIN
assert FIRST_REQUEST_SECONDS <= STALLED_SECONDS < CONNECTION_IDLE_MS // 1000
assert HOUSEKEEPING_SECONDS <= FIRST_REQUEST_SECONDS  # it is what looks
assert CHECKPOINT_SECONDS % HOUSEKEEPING_SECONDS == 0
assert OPEN_SEGMENT_TICK_SECONDS % HOUSEKEEPING_SECONDS == 0
assert OPEN_SEGMENTS_MIN > 0
assert CLOCK_STEP_MS < CLOCK_DOWN_MS_MAX < 24 * 3_600_000  # a day's step is one, whatever happens
assert CLIENT_ID_BYTES_MAX <= STRING_BYTES_MAX
assert TOPIC_NAME_BYTES_MAX < GROUP_ID_BYTES_MAX <= STRING_BYTES_MAX
assert TRANSACTIONAL_ID_BYTES_MAX <= STRING_BYTES_MAX
assert 4 * ERROR_TEXT_CHARS_MAX <= STRING_BYTES_MAX
assert TOPIC_NAME_BYTES_MAX <= STRING_BYTES_MAX
assert NATIVE_FETCH_PARTITIONS_MAX <= FETCH_PARTITIONS_HELD_MAX
assert PARTITIONS_PER_TOPIC_MAX <= NATIVE_FETCH_PARTITIONS_MAX <= PARTITIONS_PER_BROKER_MAX
assert DECOMPRESSED_BYTES_MIN >= DECOMPRESSION_RATIO_MAX * MESSAGE_BYTES_MAX
assert STAGED_BYTES_MIN <= STAGED_BATCH_BYTES_MAX <= STAGED_BYTES_MAX <= TAIL_RESERVE_BYTES_MIN
assert TAIL_RESERVE_BYTES_MIN <= TAIL_RESERVE_BYTES_MAX <= SEGMENT_BYTES_MAX
assert max(FRAME_BYTES_MAX, CURSUS_FRAME_BYTES_MAX) <= RECOMPRESSION_WAITING_BYTES_MAX
assert GROUP_CONFIG_NAME_BYTES_MAX + 24 <= METADATA_KEY_BYTES_MAX
assert RECOVERY_READ_BYTES >= MESSAGE_BYTES_MAX
assert GROUP_METADATA_BYTES_MAX <= MESSAGE_BYTES_MAX
assert SUBSCRIBED_NAMES_BYTES_MAX < GROUP_METADATA_BYTES_MAX
assert RUSTLOG_FRAME_BYTES_MAX < RUSTLOG_MESSAGE_BYTES_MAX < FRAME_BYTES_MAX
assert RUSTLOG_JSON_RECORDS_MAX * 21 < RUSTLOG_FRAME_BYTES_MAX
assert 2 * UNREAD_ANSWER_BYTES_MAX < SEND_BUFFER_BYTES
assert OPEN_TRANSACTIONS_MAX < CURSUS_TRANSACTIONS_REMEMBERED
assert READ_DECOMPRESSED_BYTES_MAX < CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX
assert MESSAGE_BYTES_MAX < CURSUS_CONSUME_BYTES_MAX < CURSUS_FRAME_BYTES_MAX
# The head of an answer names a topic or pattern of up to 64 KiB.
assert CURSUS_RECORD_BYTES_MAX + 128 * KIB < 16 * MIB
