"""Every limit of the broker, with its reason; the relations between limits are checked at import.

Whatever a peer can make the broker allocate, queue or do has a limit in this file, and so does
everything that waits, retries, queues or caches. Limits that an operator may change are settings
(model/settings.py) whose defaults are here. Sizes are in bytes where the name says so, times have
their unit in the name, everything else is a count. Native modules read these names at import; where
C needs a constant (the size of an array), the module asserts that it is equal.
"""

KIB = 1 << 10
MIB = 1 << 20

# --- frames and turns -----------------------------------------------------------------------------

# Largest request frame. Kafka allows 100 MiB; here a frame is held whole, and one may come in
# addition to UNFINISHED_FRAMES_BYTES_MAX. At least MESSAGE_BYTES_MAX + FRAME_SLACK_BYTES.
FRAME_BYTES_MAX = 16 * MIB
# Bytes of a frame in addition to its largest batch: header, topic names, other small batches.
FRAME_SLACK_BYTES = 1 * MIB
# The codec's default for the largest frame: Kafka's socket.request.max.bytes.
CODEC_FRAME_BYTES_MAX = 100 * MIB
# Default of the largest record batch: Kafka's 1 MiB plus 12 bytes of overhead.
MESSAGE_BYTES_MAX = 1 * MIB + 12
# Memory budget of all connections for unfinished frames, and for requests behind one that waits.
# Above it, connections continue one after the other, each until its frame is complete; frames of an
# ordinary size (the next limit) and longer ones take turns separately. A broker of 160 MiB has
# memory for this budget, for one frame of each kind, and for 4 KiB of each other connection.
UNFINISHED_FRAMES_BYTES_MAX = 64 * MIB
ORDINARY_FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + FRAME_SLACK_BYTES
# Bytes read at once from one connection, and its share of a turn; a larger frame gets a buffer of
# its exact size, and is then read into that.
RECEIVE_BYTES_PER_TURN = 256 * KIB
# Buffers of frames that arrived in pieces, kept for the next ones until the second is over.
FRAME_BUFFERS_BYTES_MAX = 16 * MIB
# Larger heap blocks are mappings, which are unmapped when they are freed; a longer free end of the
# heap is returned to the system.
HEAP_BLOCK_BYTES_MAX = 2 * MIB
HEAP_KEPT_BYTES_MAX = 4 * MIB
# Largest send per connection and turn, and largest single sendfile of it: a range that is not in
# the page cache must not block the loop for long.
SEND_BYTES_PER_TURN = 2 * MIB
SENDFILE_BYTES_MAX = 1 * MIB
# Events per epoll_wait, and calls of it, before Python's event loop gets its turn.
EVENTS_PER_POLL = 256
POLLS_PER_TURN = 8
# How long a turn serves requests that arrive, and then, once more, those that were queued before:
# the rest waits for the next turn, so that no client delays the others.
TURN_SHARE_US = 1_500
# How long Python starts requests, and how long callbacks and tasks run, before the sockets are
# polled again. The last step of one of them may take 2 ms more.
PYTHON_SHARE_US = 500
# Objects of generation 0, and its collections before one of generation 1. So a collection visits at
# most about 20,000 objects, 0.5 to 2 ms (server/garbage_collection).
GC_YOUNG_OBJECTS = 5_000
GC_YOUNG_COLLECTIONS = 2

# --- connections ----------------------------------------------------------------------------------

CONNECTIONS_MAX = 10_000
# From the first byte until the protocol is detected; slow-loris clients are closed then.
FIRST_REQUEST_SECONDS = 10
# A connection with an unfinished frame or unread replies is closed when it makes no progress for
# this time, and so is one whose frame arrives more slowly than this rate.
STALLED_SECONDS = 30
FRAME_BYTES_PER_MS_MIN = 1
# The same, once another connection has waited this long for the memory of frames.
CONTENDED_FRAME_SECONDS = 5
CONTENDED_FRAME_BYTES_PER_MS_MIN = 1_000
# Kafka closes a silent connection after ten minutes; clients reconnect without an error.
CONNECTION_IDLE_MS = 600_000
# Clients of other protocols may be idle without limit. TCP keepalive finds vanished peers: time
# before the first probe, between two, and unanswered probes until the connection is closed.
KEEPALIVE_IDLE_SECONDS = 300
KEEPALIVE_SECONDS = 30
KEEPALIVE_PROBES = 4
LISTEN_BACKLOG = 1024
# Accepted in one turn of the loop, so that a storm of connects does not delay the others.
ACCEPTS_PER_TURN = 64
# Refused connections are logged together, once in this time; after a failed accept (no descriptor)
# the listener pauses for this time.
REFUSALS_LOGGED_SECONDS = 60
ACCEPT_AGAIN_SECONDS = 1
# Ports that are tried to find one that is free on all of a listener's addresses.
LISTEN_TRIES = 16
# What the kernel may hold of one connection's replies, as Kafka's socket.send.buffer.bytes. Left to
# itself it grows to megabytes, and a fetch of cached data goes through memory instead of the
# processor's cache: 0.61 CPU-s/GB at 1 MB per partition, 0.25 with this (medians, 5 and 3 rounds).
SEND_BUFFER_BYTES = 100 * KIB
# Replies that wait for a sync or for an earlier reply, per connection; above it no more of its
# requests are read. A slot for a short one is some 300 bytes: 3,000 small requests in flight fit.
WAITING_REPLY_BYTES_PER_CONNECTION = 1 * MIB
# Partitions that a connection has written to without waiting until they are visible, 16 bytes
# each; with more of them (acks=0), its next request waits until they are.
UNSEEN_PARTITIONS_PER_CONNECTION_MAX = 1_024
# Replies queued for a peer that does not read; above it no more of the connection's requests are
# read. File ranges are queued as such; the limit of copied bytes is smaller.
REPLY_QUEUE_BYTES_PER_CONNECTION = 64 * MIB
REPLY_MEMORY_BYTES_PER_CONNECTION = 2 * MIB
# The same of all connections together. Above the first bound, connections with unread replies are
# not served; above the second, those are closed that have not read for the longest time.
REPLY_MEMORY_SCARCE_BYTES = 16 * MIB
REPLY_MEMORY_BYTES_MAX = 32 * MIB
# What responses of the other protocols may take together that are whole in memory before they are
# sent: the largest is made alone.
LONG_ANSWERS_BYTES_MAX = 16 * MIB
# Requests with acks=0 whose connections were closed while they were appended; above this they end.
DISCONNECTED_APPENDS_BYTES_MAX = 32 * MIB
# Reply slots kept for the next requests, of all connections: some 300 KB.
REPLY_SLOTS_KEPT_MAX = 1_024

# --- what a request may contain -------------------------------------------------------------------

# The weight of a message: an estimate of the objects that it is decoded to, some 60 bytes each. An
# array element counts as four, and each field of a struct in it as one more. Limits of the codec,
# and of a request to the broker: 50 MB with its response, 58,000 partitions to commit.
MESSAGE_ELEMENT_WEIGHT = 4
MESSAGE_WEIGHT_MAX = 1 << 23
REQUEST_WEIGHT_MAX = 1 << 19
# Weight that is decoded or encoded of a long message in one step of 1 ms.
MESSAGE_WEIGHT_PER_STEP = 1 << 15
# Objects of an answered long request that are freed in one step: 0.5 us each.
OBJECTS_FREED_PER_STEP = 1_000
# Memory budget of Kafka requests that are not short while they are processed, as objects with their
# responses: each byte may become this many. The others wait for their turn, as bytes.
SHORT_REQUEST_BYTES = 1 * KIB
REQUEST_OBJECTS_PER_BYTE = 64
REQUEST_OBJECTS_BYTES_MAX = 32 * MIB
# The same for requests of any size that wait for the disk, a thread or, in Python, for records:
# above it the largest fetches are answered at once. A fetch of 1,000 partitions takes 1 MiB.
PARKED_REQUESTS_BYTES_MAX = 64 * MIB
LONG_REQUESTS_WAITING_BYTES_MAX = 32 * MIB
CLIENT_ID_BYTES_MAX = 255
TOPIC_NAME_BYTES_MAX = 249  # Kafka's: a folder name must hold it, a dash and a partition
STRING_BYTES_MAX = 32_767  # Kafka's: an int16 length, of compact strings too
ERROR_TEXT_CHARS_MAX = 1_000  # of an error message in a response: it may quote the request
TAGS_PER_STRUCT_MAX = 64
PARTITIONS_PER_TOPIC_MAX = 10_000
# Descriptors, mappings and 300 bytes of hot state each.
PARTITIONS_PER_BROKER_MAX = 50_000
# Encoded partitions of Metadata, cached between topics and requests: 0.4 KB each.
METADATA_PARTITIONS_CACHED = 1_024
# Cached responses about all topics: with 50,000 partitions one has some 2 MB.
RESPONSE_CACHE_BYTES_MAX = 8 * MIB
# Partitions in one response of DescribeTopicPartitions; the next request continues (KIP-966).
DESCRIBED_PARTITIONS_MAX = 2_000
# Partitions of one request that the native path has a table for; a larger Produce is served by
# Python, a larger Fetch is refused.
NATIVE_PRODUCE_PARTITIONS_MAX = 1_024
NATIVE_FETCH_PARTITIONS_MAX = 10_000
# Largest native response to ListOffsets: some 600 partitions. A longer one is made by Python.
NATIVE_LIST_OFFSETS_ANSWER_BYTES_MAX = 16 * KIB
# Bytes of batches that Python's Produce appends in one step, 1 ms. The work on each partition, some
# 20 us, counts as bytes, too; so do, 4 us each, reading its name, its look-up and its answer.
PRODUCE_BYTES_PER_STEP = 1 * MIB
PRODUCE_PARTITION_BYTES = 16 * KIB
PRODUCE_NAME_BYTES = 4 * KIB
# Partitions that Python's Fetch reads in one step: some 10 us each, and 40 where there are records.
FETCH_PARTITIONS_PER_STEP = 32
RECORD_BYTES_MIN = 7  # an empty record of magic 2: a batch of n bytes holds at most n / 7
# Decompression is always limited. Four times the largest batch is enough for honest producers; a
# decompression bomb (zstd 32,000:1) is stopped.
DECOMPRESSION_RATIO_MAX = 4
DECOMPRESSED_BYTES_MIN = 16 * MIB
# What the loop decompresses of a Produce request's batches to validate their records, 1 ms; more is
# decompressed in a thread. A byte of gzip takes three times as long as one of the other codecs.
PRODUCE_DECOMPRESSED_BYTES_MAX = 1 * MIB
PRODUCE_DECOMPRESSED_GZIP_WEIGHT = 3
# Blocks of such a batch: each takes up to 1 us, and ordinary ones have 32 KiB or more.
PRODUCE_DECOMPRESSED_PIECES_MAX = 256
# Records of one refused batch that the response names.
RECORD_ERRORS_MAX = 100
# Batches recompressed at the same time, each whole in memory: one leaves the loop its processor on
# a machine of two.
RECOMPRESSION_THREADS = 1
# Bytes of batches that wait for that, of all connections; above it a producer has to retry. It is a
# second of work or more, and what a hundred producers send at once.
RECOMPRESSION_WAITING_BYTES_MAX = 128 * MIB
# A message set of magic 0 and 1 that the loop converts, and in native code those of one request:
# 0.5 ms at most. Larger and compressed ones are converted in a thread.
OLD_MESSAGES_BYTES_MAX = 1 * MIB
# What is read of a log at once for an old consumer, and how many bytes or batches are converted in
# one step: 0.5 ms. Larger batches are converted in a thread.
OLD_FETCH_BYTES_PER_TURN = 256 * KIB
OLD_FETCH_BATCH_BYTES = OLD_FETCH_BYTES_PER_TURN // 32  # what a small one counts as
# Bytes that Python's Fetch returns in addition to its first batch, however much is asked for: a
# reply made by Python is copied a few times in one turn of the loop, 1.5 ms per MiB (measured).
PYTHON_FETCH_BYTES_MAX = 2 * MIB
# Largest possible batch: sums of a few sizes fit into 32 bits.
BATCH_BYTES_MAX = 1 << 30
# What the codec decompresses in one call when the caller gives no limit.
CODEC_BYTES_MAX = 256 * MIB
# Lazy records are decoded in chunks of this size, or of one batch: small enough for the cache.
RECORDS_CHUNK_BYTES = 256 * KIB
# Blocks of one compressed input. An honest megabyte that was flushed after each record of 100 bytes
# has 10,000; this many empty ones, 1 to 3 us each, take 50 ms. A larger input may have more blocks,
# in proportion.
COMPRESSED_PIECES_MIN = 16_384
COMPRESSED_BYTES_PER_PIECE = 1 * KIB
COMPRESSED_FRAME_PIECES = 16  # a frame or member costs as much as this many blocks
# The window of a zstd frame, unless the limit on its content is less: the 8 MiB that RFC 8878
# recommends every decoder to support.
ZSTD_WINDOW_BYTES_MAX = 8 * MIB
FETCH_BYTES_MAX = 55 * MIB  # Kafka's fetch.max.bytes
FETCH_WAIT_MS_MAX = 300_000
FETCH_SESSIONS_MAX = 1_000
FETCH_SESSIONS_EVICTED_MAX = 16  # for a new one: each takes a look at all addresses
# Partitions that all fetches keep between two requests or while they wait, some 200 bytes each.
# Above it there are no new sessions, and a fetch without one does not wait.
FETCH_PARTITIONS_HELD_MAX = 200_000
# How long a write whose request has no timeout waits for the replicas in sync: Kafka's producers'
# request.timeout.ms.
REPLICAS_WAIT_MS = 30_000
NAMED_PRODUCERS_WAIT_MS = 2_000  # a read or a checkpoint of named producers, for the same
REPLICA_SESSIONS_MAX = 1_000  # one per broker that copies partitions from this one
REPLICA_NEWS_DELAY_MS = 50  # of a high watermark that moves while there is nothing to copy
REPLICA_PARTITIONS_HELD_MAX = 10 * PARTITIONS_PER_BROKER_MAX  # some 200 bytes each
FETCH_SESSION_IDLE_MS = 120_000  # Kafka's: a session unused for so long may be evicted

# For logs that are read or written record by record: bytes of one read, and records decoded or
# encoded in one turn of the loop; about 2 ms.
READ_BYTES_PER_STEP = 64 * KIB
RECORDS_READ_PER_TURN = 4_000
# What the loop decompresses of a batch for such a reader, 0.5 ms; and what the thread may
# decompress, one batch at a time: its columns take up to three times as much.
READ_DECOMPRESSED_BYTES_PER_TURN = 256 * KIB
READ_DECOMPRESSED_BYTES_MAX = 64 * MIB
RECORDS_WRITTEN_PER_TURN = 20_000

# --- V1 -------------------------------------------------------------------------------------------

# A command without its newline: what the original's buffer of 64 KiB holds.
V1_REQUEST_BYTES_MAX = 65_535
# Records in one response, by their length in it; a longer record is sent alone. And their number,
# with the batches that are skipped: 2 ms.
V1_CONSUME_BYTES_MAX = 1 * MIB
V1_CONSUME_RECORDS_MAX = 10_000
# A value that is sent alone, by its length in the line. A longer one is skipped; the line says so
# with its offset and size.
V1_LONG_VALUE_BYTES_MAX = 15 * MIB
# A line of another broker: with one such value, or with many offsets behind its values.
V1_FORWARDED_BYTES_MAX = V1_LONG_VALUE_BYTES_MAX + 1 * MIB
# Bytes of one value that are escaped for a line in a turn: 1 ms.
V1_VALUE_BYTES_PER_TURN = 256 * KIB
# What the native path reads of a log at once, and for one response; what needs more is served in
# steps.
V1_READ_BYTES_PER_STEP = 256 * KIB
V1_READ_BYTES_MAX = 2 * MIB
# Partitions with the role of a follower; registered brokers.
V1_FOLLOWERS_MAX = 10_000
V1_BROKERS_MAX = 1_000

# --- RustLog --------------------------------------------------------------------------------------

# Frames in both directions (docs/protocols/rustlog.md).
RUSTLOG_FRAME_BYTES_MAX = 10_485_760
# Largest record that fits into the binary response to a fetch: 17 bytes are around it there, one
# more than in a produce to a topic whose name has one byte.
RUSTLOG_RECORD_BYTES_MAX = RUSTLOG_FRAME_BYTES_MAX - 17
# Largest batch of a topic that its clients create: a record that fills a frame, and the batch's
# overhead.
RUSTLOG_MESSAGE_BYTES_MAX = RUSTLOG_FRAME_BYTES_MAX + 1 * KIB
# Bytes of a JSON request in addition to its records: it is decoded to Python objects.
RUSTLOG_ENVELOPE_BYTES_MAX = 64 * KIB
# Bytes of JSON that are decoded or encoded in one step: 2 ms.
RUSTLOG_BYTES_PER_STEP = 1 * MIB
# Records of one JSON request: the response has an offset of up to 20 digits for each.
RUSTLOG_JSON_RECORDS_MAX = 400_000
# What the native fetch reads of a log in one turn; a larger one is served in steps.
RUSTLOG_NATIVE_FETCH_BYTES_MAX = 1 * MIB
# Its clients do not retry: how long a request waits for a coordinator that loads, and how often it
# checks.
GROUP_READY_WAIT_MS = 5_000
GROUP_READY_POLL_MS = 20
# Committed offsets whose lag is kept for the metrics.
RUSTLOG_LAGS_MAX = 1_000
# In a cluster, how long the metrics wait for the ends of partitions that other brokers lead.
RUSTLOG_METRICS_SECONDS = 5

# --- Cursus ---------------------------------------------------------------------------------------

# Largest frame that its document and clients allow; also a limit of decompression.
CURSUS_FRAME_BYTES_MAX = 64 * MIB
# Largest frame that its newer clients read. A record that does not fit beside the topic's name and
# the rest of a head is refused when it is written, and not sent if another protocol has written it.
CURSUS_RESPONSE_BYTES_MAX = 16 * MIB
CURSUS_RECORD_BYTES_MAX = CURSUS_RESPONSE_BYTES_MAX - 31
CURSUS_CONSUME_BYTES_MAX = 15 * MIB  # several records in one response
# Largest batch of a topic that its clients create: the largest record with the batch's overhead and
# its headers, with 65,535 bytes of each text in them.
CURSUS_MESSAGE_BYTES_MAX = CURSUS_RECORD_BYTES_MAX + 1 * KIB
CURSUS_CONSUME_RECORDS_MAX = 8_192
# Topics of which a connection remembers how far its last CONSUME of a pattern has read.
CURSUS_PATTERN_TOPICS_MAX = 500
# Read of a log at once, or one batch, where frames are made of stored batches: 0.15 ms.
CURSUS_READ_BYTES_PER_STEP = 256 * KIB
# Size of a stream's frame; none is made while more than the second waits for the socket.
CURSUS_STREAM_FRAME_BYTES_MAX = 1 * MIB
CURSUS_STREAM_UNSENT_BYTES_MAX = 256 * KIB
# What all streams together keep of batches that were decompressed for them and are not sent; above
# it batches are decompressed again. The largest batch's limit, twice.
CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX = 128 * MIB
# A keepalive on a stream with nothing to send: some clients read with a timeout of 5 s.
CURSUS_KEEPALIVE_MS = 1_900
# In a cluster, how often the members that read streams are checked with their coordinators.
CURSUS_MEMBERS_CHECKED_SECONDS = 2
# Members that are checked in one step: 20 us each if this broker is their coordinator.
CURSUS_MEMBERS_CHECKED_PER_STEP = 64
# How long NOT_LEADER is held back in a cluster.
CURSUS_NOT_LEADER_SECONDS = 0.25
# A relayed stream without a frame for this long has lost its broker.
CURSUS_STREAM_SILENT_SECONDS = 4 * CURSUS_KEEPALIVE_MS / 1000
CURSUS_BATCH_RECORDS_MAX = 100_000
# The text command before its message: a commit of 10,000 partitions has 200 KB.
CURSUS_COMMAND_BYTES_MAX = 256 * KIB
# A compressed body is decompressed on the loop if it is short and cannot become long.
CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX = 256 * KIB
# A longer batch is served by Python, step by step: 1 ms of the loop.
CURSUS_FAST_BATCH_BYTES_MAX = 1 * MIB
# Records of a batch that are decoded to objects in one turn, about 2 ms.
CURSUS_ROWS_PER_TURN = 2_000
# Runs of consecutive sequences in one batch to an idempotent topic; an honest batch has one.
CURSUS_RUNS_PER_BATCH_MAX = 1_000
CURSUS_PRODUCER_ID_BYTES_MAX = 255
# Assumed batch size of a producer before its first full batch.
CURSUS_BATCH_RECORDS_ASSUMED = 100
# A transaction that its producer leaves open is aborted: the default timeout of Kafka's producers,
# or transaction.max.timeout.ms if that is less. The protocol has no field for it.
CURSUS_TRANSACTION_TIMEOUT_MS = 60_000
# END_TXN is answered once its markers are written, INIT_PRODUCER_ID once the transaction of the
# previous instance has ended; no later than this, because a client's timeout is 5 s.
CURSUS_TRANSACTION_END_WAIT_MS = 3_000
# Transactions whose staged messages are remembered, including the last ones to end; and their last
# messages, so that a retry is not stored again.
CURSUS_TRANSACTIONS_REMEMBERED = 2_000
CURSUS_TRANSACTION_MESSAGES_REMEMBERED = 64
# Partitions of transactions of other brokers whose last staged message is remembered likewise.
CURSUS_STAGED_HERE_REMEMBERED = 10_000
# Responses to acks=0, which clients do not read: none is sent while this much waits before it. The
# kernel takes that and what one more turn brings, so that none is sent in part.
UNREAD_ANSWER_BYTES_MAX = 16 * KIB
# Request line and headers of a health check.
HTTP_HEAD_BYTES_MAX = 8 * KIB

# --- producers ------------------------------------------------------------------------------------

# Producers that a partition, and all partitions together, remember to detect duplicates. They
# expire after producer.id.expiration.ms; above the limits the longest silent ones are evicted
# before that. One takes less than 300 bytes.
PRODUCER_IDS_PER_PARTITION_MAX = 10_000
PRODUCER_IDS_MAX = 100_000
PRODUCER_BATCHES_REMEMBERED = 5  # Kafka's: clients keep at most five in flight
# How far before a producer's last batch, the only one in a snapshot, the others are looked up by
# their headers: 2,048 reads of 4 KiB at most, about 2 ms.
PRODUCER_SEARCH_BYTES = 8 * MIB
# For how long a broker that begins to lead a partition refuses batches with a gap before them as
# one that does not lead it: the batches of the gap were refused so, and are sent again.
PRODUCER_REFUSED_SECONDS = 10
PRODUCER_ID_BLOCK = 1_000  # Kafka's: one durable write per thousand ids

# Batches of one named producer that may overtake a missing one, since its clients have five in
# flight; and gaps in its sequences that are remembered.
NAMED_PRODUCER_BATCHES_AHEAD = 5
# Records that a load replays in one turn.
NAMED_PRODUCERS_LOADED_PER_TURN = 2_000

# --- groups ---------------------------------------------------------------------------------------

GROUPS_MAX = 10_000
# Memory budget of all groups, with their members' subscriptions and committed offsets: this part
# of the memory of the process (server/memory.py). Lower bounds of what is used by a group, a member
# without its names, a member id without a member, a subscribed name without its characters, an
# assigned partition, and a committed offset without its metadata.
GROUPS_MEMORY_SHARE = 8
GROUP_BYTES = 2 * KIB
MEMBER_BYTES = 2 * KIB
PENDING_MEMBER_BYTES = 512
SUBSCRIBED_NAME_BYTES = 64
ASSIGNED_PARTITION_BYTES = 128
OFFSET_BYTES = 384
# A client's clock is this much ahead at most: a later time of a commit is one that it wants.
COMMIT_AHEAD_MS = 60 * 60 * 1000
# Kafka's is that of a string, 32 KiB; it is part of every record and log line of its group.
GROUP_ID_BYTES_MAX = 1 * KIB
MEMBERS_PER_GROUP_MAX = 1_000
# Subscriptions and assignments of all members of a group together, held in memory and written to
# __consumer_offsets in one record.
GROUP_METADATA_BYTES_MAX = 1 * MIB
GROUP_PROTOCOLS_PER_MEMBER_MAX = 64
# Members with an id that have not joined with it yet (KIP-394).
PENDING_MEMBERS_PER_GROUP_MAX = MEMBERS_PER_GROUP_MAX
# Kafka's NewMemberJoinTimeoutMs: how long a member that joins for the first time may wait for the
# others. Its session cannot expire before, because it cannot heartbeat yet.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
# V1's members have no session timeout in their requests.
ASSIGNED_SESSION_TIMEOUT_MS = 10_000
# Members of a group that the broker assigns at each join: all are assigned anew and written in one
# record, in one turn: 1.5 ms at this number.
ASSIGNED_MEMBERS_MAX = 200
# The largest groups.json or offsets.json that a start reads.
V1_FILE_BYTES_MAX = 64 * MIB
# How often they are written at most; groups and offsets that are copied in one step.
V1_FILES_SECONDS = 1
V1_GROUPS_PER_STEP = 16
V1_OFFSETS_PER_STEP = 1_000
# Offsets that a start imports in one batch; batches and groups that wait for the disk at the same
# time; how long the import waits for the next of them.
V1_OFFSETS_PER_COMMIT = 500
V1_LOADED_AT_ONCE = 64
V1_LOAD_SECONDS = 60
# A line in a segment of V1's original server: its commands end at 64 KiB, and the prefix of a
# stored line can be longer than theirs.
V1_LINE_BYTES_MAX = 128 * KIB
# What `broker import` sends at once; damages in its report (each is logged when it is found).
IMPORT_BATCH_BYTES = 512 * KIB
IMPORT_BATCH_RECORDS = 2_000
IMPORT_OFFSETS_PER_REQUEST = 1_000
IMPORT_DAMAGES_REPORTED = 1_000
# Timeout of a command's request, and the delay of a retry while the broker is starting.
CLIENT_TIMEOUT_SECONDS = 30
CLIENT_RETRY_SECONDS = 0.1
# Requests of this broker to another one that are not answered yet; more of them wait.
PEER_REQUESTS_IN_FLIGHT_MAX = 64
# Topics of a cluster that are opened, closed or altered at the same time.
TOPICS_FOLLOWED_AT_ONCE = 8
# How long a stopping broker waits until others lead what it has led, and one leadership until its
# successor has all records. Pauses between looks for overdue acknowledgements and late replicas.
DRAIN_SECONDS, HANDOVER_SECONDS = 30, 5
REPLICAS_CHECKED_SECONDS, REPLICAS_LAG_SECONDS_MIN = 0.1, 0.5
# How long a starting broker waits for its replicas to be recovered, before it joins its cluster.
RECOVERED_BEFORE_JOINING_SECONDS = 30
# Timeout of a connection to another broker.
PEER_CONNECT_SECONDS = 2
# Partitions that one request of a replica names, and bytes of its answer besides the setting's.
REPLICA_FETCH_PARTITIONS_NAMED_MAX = 1_000
REPLICA_FETCH_REPLY_SLACK_BYTES = 32 * MIB
# Bytes that a replica appends between two flushes; a partition's part of an answer is not divided.
REPLICA_FLUSHED_BYTES_MAX = MIB
# How long a replica waits for its slowest sync before it tells its leader of the others.
REPLICA_SYNC_PATIENCE_MS = 4
# Pauses, which double: before a leader is connected to again, and a partition is asked for again.
REPLICA_CONNECT_PAUSE_MS, REPLICA_CONNECT_PAUSE_MS_MAX = 50, 1_000
REPLICA_FAILURES_PER_LINE = 30  # of connections, in the log
REPLICA_RETRY_MS, REPLICA_RETRY_MS_MAX = 100, 500
# Connections over which requests of clients are forwarded to other brokers, each serving one client
# at a time, half of them streams; and when an idle one is closed.
FORWARDING_CONNECTIONS_MAX = 1_024
FORWARDING_IDLE_SECONDS = 30
# How long the answer to a forwarded request may take, as request.timeout.ms of Kafka's clients.
FORWARDED_ANSWER_SECONDS = 30
# Longer requests and answers count: together the requests that wait for their turn or their answer
# (twice the limit), and the answers that are being received.
FORWARDED_SHORT_BYTES_MAX = 64 * KIB
FORWARDED_REQUESTS_BYTES_MAX = 64 * MIB
FORWARDED_ANSWERS_BYTES_MAX = 16 * MIB
# The host of a client, as another broker names it: an address, which has at most 45 characters.
FORWARDED_HOST_CHARS_MAX = 64
# Unsent bytes of a relayed stream, above which no more is read from the other broker.
RELAY_UNSENT_BYTES_MAX = 256 * KIB
# Topics that are not known here and looked up in the store at the same time.
TOPICS_LEARNED_AT_ONCE = 8
# After the store did not have a topic, the pause before it is looked up again; and for how many
# topics that is remembered, whose names have at most 249 characters.
TOPIC_LOOKUP_PAUSE_MS = 250
TOPICS_UNKNOWN_MAX = 10_000
# How long a broker waits until it serves what the broker that forwards a request knows it to lead.
FORWARDING_FOLLOW_SECONDS = 2
# How long our client retries by default: a broker starts within it.
CLIENT_GIVE_UP_SECONDS = 15
# Idle connections to one broker that are kept, and for how long.
CLIENT_IDLE_CONNECTIONS_MAX = 4
CLIENT_IDLE_SECONDS = 60
# Bytes of one Fetch of our client: smaller ones cost more of Python, larger ones gain nothing.
CLIENT_FETCH_BYTES = 4 * MIB
CLIENT_FETCH_BYTES_MIN = 64 * KIB
CLIENT_FETCH_WAIT_MS = 500
# Rows of one Arrow batch for Spark: with a thousand each costs a third more, a million take memory.
PIPELINE_BATCH_ROWS = 65_536
# Ranges of offsets of a trigger are read by one task if together they have no more.
PIPELINE_SHARED_TASK_OFFSETS = 2_000
# Freed memory that a Spark worker's heap keeps; blocks above the second, glibc's own maximum, are
# returned at once.
WORKER_FREE_BYTES = 64 * MIB
WORKER_BLOCK_BYTES = 32 * MIB
# Compressed batches that are decoded at once: decompressed they are many times as large.
PIPELINE_COMPRESSED_BYTES = 512 * KIB
# Largest Produce of our client: a broker holds it whole, and it is repeated without a response.
CLIENT_PRODUCE_BYTES = 8 * MIB
# Members, topics and partitions that one slice of an assignment visits, about 2 ms; the interval
# between the slices of a larger group.
ASSIGNMENT_WORK_PER_SLICE = 2_000
ASSIGNMENT_SLICE_INTERVAL_MS = 1
# Members whose targets are written in one batch of records.
TARGETS_PER_BATCH = 200
# Names that one slice matches with patterns: 5 us each. After topics have changed, patterns are
# matched again, no more often than the interval.
REGEX_MATCHES_PER_SLICE = 400
REGEX_COMPILE_WORK = 20  # the cost of compiling a pattern, in matches
REGEX_REFRESH_INTERVAL_MS = 1_000
REGEX_BYTES_MAX = 4_096
# Subscribed topic names of one member of the consumer protocol, which are one record: a thousand
# of Kafka's longest names.
SUBSCRIBED_NAMES_BYTES_MAX = 256 * KIB
REGEX_MEMORY_BYTES_MAX = 1 * MIB
# Where subscriptions differ, how often an assignor visits all topics to balance: each pass moves
# less, and what is left differs by a few partitions.
ASSIGNMENT_BALANCE_PASSES_MAX = 8
OFFSET_METADATA_BYTES_MAX = 4_096
# Committed offsets held by one group.
OFFSETS_PER_GROUP_MAX = 100_000
# Kafka's offsets.retention.check.interval.ms.
OFFSETS_EXPIRY_INTERVAL_MS = 600_000
# Groups and offsets that are visited, and tombstones written, in one step: an expiry visits all
# groups, a deletion all offsets of one.
REMOVALS_PER_STEP = 128
# Groups that are listed in one step: 2 us each.
GROUPS_LISTED_PER_STEP = 16
# Kafka's is that of a string; it is part of every record of its transactions.
TRANSACTIONAL_ID_BYTES_MAX = 1 * KIB
# Transactional ids, and transactions open at the same time.
TRANSACTIONAL_IDS_MAX = 10_000
OPEN_TRANSACTIONS_MAX = 1_000
# Kafka's transaction.remove.expired.transaction.cleanup.interval.ms.
TRANSACTIONS_EXPIRY_INTERVAL_MS = 3_600_000
# Transactional ids that are visited in one step, after a load or for expiry.
TRANSACTIONS_PER_STEP = 64
# Delay of a retry of an end that could not be decided, or of failed markers.
TRANSACTION_RETRY_MS = 1_000
MARKER_RETRY_MS_MIN = 25  # of markers, first, after leaders have changed; it doubles then
# Kafka's add.partitions.to.txn.retry.backoff.max.ms.
CONCURRENT_TRANSACTION_WAIT_MS = 100
# Markers that are appended, and partitions that are admitted to a transaction or synced at its end,
# in one turn: some 20 us each.
MARKERS_PER_TURN = 128
# Markers in one request to the broker that leads their partitions: their checks take some 2 ms. The
# leader answers when they are on its disk.
REMOTE_MARKERS_PER_REQUEST_MAX = 256
REMOTE_MARKERS_SECONDS = 10
# Whether a transaction has a partition, asked of the broker that coordinates it; below the timeouts
# of clients, which ask again.
REMOTE_ADMISSION_SECONDS = 5
# How long a broker may take to say how much its replicas have, before an unclean election.
REPLICA_ENDS_SECONDS = 2
# Kafka's add.partitions.to.txn.retry.backoff.ms.
CONCURRENT_TRANSACTION_RETRY_MS = 20
# Group and transactional ids whose partition is cached, and the longest of them: a longer one is
# invalid, and is not hashed.
COORDINATOR_KEYS_REMEMBERED = 4_096
COORDINATOR_KEY_CHARS_MAX = max(GROUP_ID_BYTES_MAX, TRANSACTIONAL_ID_BYTES_MAX)
# How much of a log one step of a load reads and replays, some 10 us a record.
LOAD_BYTES_PER_STEP = 64 * KIB
LOAD_RECORDS_PER_STEP = 128
# Replies that one coordinator partition sends in a turn: a rebalance answers all members of a
# group, and each reply takes 30 us of the loop.
REPLIES_PER_TURN = 64
# Decisions of deadlines and other unrequested work in one turn: each appends a batch.
COORDINATOR_DECISIONS_PER_TURN = 32
# A decision with this many records or replies counts as one more.
COORDINATOR_DECISION_RECORDS = 8
# One of this many decisions of a turn is reserved for work other than deadlines.
COORDINATOR_WORK_SHARE = 4
# The weight of a slice of a computation (ASSIGNMENT_WORK_PER_SLICE, REGEX_MATCHES_PER_SLICE), in
# decisions: it is the last of its turn.
COORDINATOR_SLICE_DECISIONS = 32
# Offsets that one command commits: 5 us each. A larger request is several commands.
OFFSETS_COMMITTED_PER_STEP = 150
# Offsets of a group that are looked up in one step: 0.3 us each.
OFFSETS_FETCHED_PER_STEP = 256
# Groups that are encoded in one step of a response: 2 us each.
GROUPS_ANSWERED_PER_STEP = 500
# Groups of one request whose offsets are fetched, or that are deleted, in one turn.
GROUPS_ASKED_PER_TURN = 16
# A partition that could not be opened or loaded is not retried for every request.
LOAD_RETRY_MS = 1_000
COORDINATOR_REPLY_MS = 5_000  # a reply's wait for replicas: Kafka's offsets.commit.timeout.ms

# Unreadable records whose offsets a load's log line names.
LOST_OFFSETS_SHOWN = 10

# Length of an id or reason from a client in a log line.
NOTE_CHARS_MAX = 255
# Log lines of a coordinator in a second; more are only counted.
NOTES_PER_SECOND_MAX = 100
# Log lines of any event in a second; more are only counted. And events that are counted separately,
# in case a message template contains something that a client sent.
LOG_LINES_PER_SECOND_MAX = 100
LOG_EVENTS_PER_SECOND_MAX = 1_000
LOG_LINES_OF_ALL_PER_SECOND_MAX = 2_000

# --- logs -----------------------------------------------------------------------------------------

# Batches of one turn are written together, up to this size; larger ones are written at once,
# without a copy. Between turns no log holds a buffer; all logs share one.
STAGED_BYTES_MAX = 64 * KIB
STAGED_BATCH_BYTES_MAX = 32 * KIB
STAGED_BYTES_MIN = 4 * KIB
# Memory in which another protocol's records are encoded, kept between requests.
PLAIN_BATCH_BYTES_KEPT = 256 * KIB
# Records that are encoded in one batch at once: 2 ms of the shortest.
RUN_RECORDS_PER_BATCH = 100_000
# A log that is appended to reserves space at its tail; the size starts small and doubles while the
# partition is written to.
TAIL_RESERVE_AFTER_BYTES = 64 * KIB
TAIL_RESERVE_BYTES_MIN = 64 * KIB
TAIL_RESERVE_BYTES_MAX = 16 * MIB
# Under durability `os`, a file that has grown by this much since it was opened is filled with zeros
# ahead of a short write; longer writes gain nothing. A larger fill makes the shortest ones slower.
TAIL_FILL_BYTES = 64 * KIB
TAIL_FILL_AFTER_BYTES = 1 * MIB
TAIL_FILL_WRITE_BYTES_MAX = 12 * KIB
INDEX_INTERVAL_BYTES = 4_096
INDEX_BYTES_MAX = 10 * MIB
# Newest entries of an index, held in memory; above it the older half is dropped.
INDEX_ENTRIES_HELD_MAX = 1_024
# Entries that an idle log keeps; with more it writes its index, which takes longer than a close.
INDEX_ENTRIES_HELD_IDLE = 16
# An older part of an index that was searched in its file this often is read into memory while its
# segment is open, as long as all such memory is below the bound.
INDEX_MISSES_BEFORE_LOAD = 4
INDEX_MEMORY_BYTES_MAX = 64 * MIB
# Descriptors for neither connections nor segments: listeners, the metadata store, small files,
# folders that are synced, the compactor's pipes. And the least that a broker starts with.
SPARE_DESCRIPTORS = 64
DESCRIPTORS_MIN = 256
# Open segments at the minimum of descriptors; with more descriptors half of them, without the
# spare ones. Unused segments are closed after one to two ticks, for this long in each second.
OPEN_SEGMENTS_MIN = DESCRIPTORS_MIN // 2 - SPARE_DESCRIPTORS
OPEN_SEGMENT_TICK_SECONDS = 30
# Full segments that one log keeps open until they are synced, or an eighth of the open segments if
# that is less. More would not be synced sooner: the active segment grows until then.
UNSEALED_SEGMENTS_MAX = 16
CLOSE_IDLE_MICROSECONDS = 2_000
# Positions in a segment where its readers stopped, and most likely continue.
READ_HINTS_PER_SEGMENT = 8
# Ends of what other replicas have copied of a log: one of them becomes its high watermark.
REPLICA_PLACES_KEPT = 8
# A replica that is fit to be in sync is proposed again after that, if it was not added.
ISR_PROPOSAL_REPEAT_MS = 1_000
SEGMENT_BYTES_MAX = (1 << 31) - 1  # index positions are int32
# fdatasync in flight, each of another file: 8 gave 1.4x the syncs per second of 4 (measured).
SYNC_THREADS = 8
# Logs that a start recovers at the same time, so that a long tail does not delay the others. More
# threads would only contend for the interpreter lock.
RECOVERY_THREADS = 2
# How long one thread may hold the interpreter lock while logs are recovered.
LOADING_SWITCH_SECONDS = 0.0002
# Recovered logs wait for a shared sync for this time, or until there are this many.
RECOVERED_WAIT_MS = 50
# Each has files open until it is synced.
RECOVERED_LOGS_MAX = 512
# Up to this many logs are synced one by one, more by one call for the whole file system.
LOGS_SYNCED_ONE_BY_ONE_MAX = 16
# Recovery reads segments in pieces; a piece must hold the largest batch.
RECOVERY_READ_BYTES = 4 * MIB
# The event loop runs during each read: small batches take about 1 ms per so many bytes.
RECOVERY_STEP_BYTES = 256 * KIB
# A replica without a producers' snapshot below its high watermark is read from its first byte on,
# to find the transactions that have ended above it, if it is not longer than this.
RECOVERY_OF_ENDED_BYTES_MAX = 1 << 30
CHECKPOINT_SECONDS = 60  # Kafka's log.flush.offset.checkpoint.interval.ms

# --- compaction -----------------------------------------------------------------------------------

# Read at once of a segment by the process that compacts, doubled for a batch that is larger.
COMPACTION_READ_BYTES = 4 * MIB
# Kafka's log.cleaner.dedupe.buffer.size: 24 bytes a place, three quarters of them taken.
COMPACTION_MAP_BYTES = 128 * MIB
COMPACTION_MAP_BYTES_MIN = 1 * MIB
COMPACTION_MAP_BYTES_MAX = 16 * 1024 * MIB
# A compactor without a message for this long is ended: it reports each piece, after milliseconds.
COMPACTION_STALLED_SECONDS = 120
COMPACTION_NICE = 10
# Segments that become one, however small: their files are removed in one step.
COMPACTION_GROUP_SEGMENTS_MAX = 256
# What a batch may decompress to in that process: it is stored as it was sent.
COMPACTION_DECOMPRESSED_BYTES_MAX = 128 * MIB
# One line of a child's report: base offsets of the segments of a group, 20 digits each.
COMPACTION_LINE_BYTES_MAX = 16 * MIB

# --- retention, deletion, steps of long requests -------------------------------------------------

# How often due files are removed; retention itself has its own interval.
RETENTION_TICK_SECONDS = 1
# Segments that retention visits, removes or renames in one step of the loop or the I/O thread: less
# than 1 ms of either with the interpreter lock, and some 20 ms of the disk. Logs in one step.
RETENTION_SEGMENTS_PER_STEP = 64
LOGS_CHECKED_PER_STEP = 32
# Logs of one topic that get an altered configuration in one step: 6 us each.
LOGS_CONFIGURED_PER_STEP = 256
# Logs of partitions led from now on that are made and given to the loader in one step: 15 us each.
LOGS_ANNOUNCED_PER_STEP = 64
# Topics that get an altered broker configuration in one step: 0.1 ms each.
TOPICS_CONFIGURED_PER_STEP = 16
# Resources that are described with all keys in one step: up to 0.5 ms each.
CONFIGS_DESCRIBED_PER_STEP = 4
# Names of a request that are sorted or compared in one step: up to 1 us each.
NAMES_READ_PER_STEP = 1_000
# Producers of a partition that are encoded in one step: 1 us each.
PRODUCERS_DESCRIBED_PER_STEP = 1_000
# Partitions in which one request looks up a timestamp or an end in one step: 20 us each, and more
# where a batch has to be decompressed.
OFFSETS_FOUND_PER_STEP = 8
# Partitions that are named in a request or encoded in a response in one step: up to 8 us each.
PARTITIONS_ANSWERED_PER_STEP = 200
# Files of deleted topics that are removed before the I/O thread does other work; and deleted topics
# that wait for file.delete.delay.ms: above it the oldest does not wait any longer.
FILES_REMOVED_PER_STEP = 64
FOLDERS_RENAMED_PER_STEP = 256
LOGS_DELETED_PER_STEP = 256  # of the loop
DELETED_TOPICS_WAITING_MAX = 1_000
DELETION_RETRY_SECONDS = 5  # until it is recorded again that they are gone
# Logs that a broker of a cluster closes at the same time, because others lead their partitions.
LOGS_RELEASED_AT_ONCE = 64
FOLDER_NAME_BYTES_MAX = 255  # the file system's

# --- segments as files: snapshots, checks, scans --------------------------------------------------

# How often a snapshot retries a partition whose files were replaced meanwhile; the largest manifest
# that is read: of a million segments.
SNAPSHOT_TRIES = 50
MANIFEST_BYTES_MAX = 256 * MIB
# Default and minimum of what one Spark task reads of a log's files; what it decodes at once.
PIECE_BYTES = 128 * MIB
PIECE_BYTES_MIN = 64 * KIB
SCAN_CHUNK_BYTES = 4 * MIB
INTEGRITY_CHUNK_BYTES = 8 * MIB
# A check of a segment: bytes per read, so that CRC and hash find them in the processor's cache;
# damages that are reported separately, all later ones are one; bytes per step.
SEGMENT_CHECK_PIECE_BYTES = 256 * KIB
SEGMENT_CHECK_DAMAGES_MAX = 1_000
SEGMENT_CHECK_STEP_BYTES = 8 * MIB
# Largest index file that is compared with its log: twice the default of segment.index.bytes.
INDEX_READ_BYTES_MAX = 20 * MIB
# Of the scrub: segments that wait for their digests, the scrub itself takes those of others; how
# often it checks for segments that are due; bytes per step, and per second; how often it retries a
# segment that was replaced while it was read.
DIGESTS_WAITING_MAX = 1_000
SCRUB_LOOK_SECONDS = 60
SCRUB_STEP_BYTES = 1 * MIB
SCRUB_BYTES_PER_SECOND = 20 * MIB
VERIFY_TRIES = 3
PROGRESS_MS = 2_000  # between two progress lines of a long check
# What `segment dump` decompresses of a batch at most.
DUMP_READ_BYTES = 1 * MIB

# --- disk space -----------------------------------------------------------------------------------

# Levels from LOW to READ_ONLY (core/maintenance/disk_space.py): the percent of free bytes or inodes
# below which one begins, and the most bytes that counts for. A disk of 10 TB is not full with
# 200 GB free.
DISK_LEVELS = ((15, 1 << 62), (8, 1 << 62), (5, 1 << 30), (2, 400 * MIB))
DISK_INODES = (4_096, 1_024, 256, 32)
# A level is left when this many times its bound is free.
DISK_LEVEL_LEFT_AT = 1.25
DISK_LOOK_SECONDS = 1
# Longest REFUSE after failed writes, in checks, while the file system reports space: a quota.
DISK_HOLD_LOOKS_MAX = 30
# The reserve is for commits, deletes and metadata while records are refused; its last part is for
# deletes: shares of the disk, and of the reserve.
DISK_RESERVE_BYTES_MAX = 64 * MIB
DISK_RESERVE_SHARE = 16
DISK_LAST_RESERVE_SHARE = 8
# What a start after an unclean stop frees of a reserve if the disk has no more: for a commit of the
# metadata store, and the small files and indexes that recovery writes.
START_FREE_BYTES = MIB
# How often retention runs while disk space is short.
TRIM_INTERVAL_MS = 5_000

# --- metadata, housekeeping, stopping -------------------------------------------------------------

METADATA_OPS_PER_TRANSACTION_MAX = 120  # etcd refuses 129 (measured)
METADATA_KEY_BYTES_MAX = 1_024
METADATA_VALUE_BYTES_MAX = 1 * MIB  # etcd refuses 1.6 MB (measured)
METADATA_CALL_SECONDS = 5  # etcd: the deadline of a call over all endpoints
# Partitions of a cluster in one step of its image or its drivers: 1 ms.
CLUSTER_PARTITIONS_PER_STEP = 256
# Changes of partitions in one transaction, with a guard each, and transactions in flight: one store
# applies 10,000 changes per second (measured).
CLUSTER_CHANGES_PER_TRANSACTION = 100
CLUSTER_WRITES_IN_FLIGHT_MAX = 4
# Partitions of internal topics that get more replicas at the same time.
CLUSTER_GROWTHS_AT_ONCE = 10
# When a transaction that was refused, or whose outcome is unknown, is decided again at the latest.
CLUSTER_RETRY_MS = 200
# How long workers that start together wait for each other before one becomes the controller.
WORKERS_TOGETHER_MS = 3_000
WORKERS_MAX = 64
# A worker that ends sooner after its start has failed. So many failures in a row end all workers;
# the pauses before restarts double, beginning with the second.
WORKER_FAILED_SECONDS = 10
WORKER_FAILURES_MAX = 6
WORKER_PAUSE_SECONDS = 0.2
WORKER_PAUSE_SECONDS_MAX = 10
# How long workers may take to stop before they are killed: draining and a clean stop.
WORKERS_STOP_SECONDS = DRAIN_SECONDS + 2 * 10
# When a broker reads again what is registered under its id.
REGISTRATION_RETRY_SECONDS = 0.5
# How long a request for preferred leaders waits until they lead.
ELECTION_SECONDS_MAX = 60
# How long a deletion of records waits until the replicas in sync have deleted them, too.
DELETION_WAIT_MS_MAX = 60_000
# Early fencing: how many brokers each one watches, how often in a row a dead one refuses
# connections, the time between two of them, and that between others.
PROBED_BROKERS_MAX = 5
PROBE_REFUSALS = 3
PROBE_GAP_MS = 20
PROBE_AGAIN_MS = 1_000
PROBE_CONNECT_SECONDS = 1
# For how long the folders of a deleted topic are waited for on brokers that are gone.
DELETED_TOPIC_DAYS = 7
# By how much `broker metadata bump-epochs` raises leader epochs, which are int32: more elections
# than any backup is old.
LEADER_EPOCHS_BUMPED = 1_000_000
PRODUCER_IDS_SKIPPED = 1 << 40  # by the same command, of 2^63
# How many restores of its metadata store a data directory remembers.
RESTORES_KNOWN_MAX = 100
# How long a start waits for a metadata store that does not answer.
METADATA_START_SECONDS = 60
# How often a change of metadata is made anew after another broker was first.
CHANGE_ATTEMPTS = 5
# How often the controller looks at deleted topics.
DELETED_TOPICS_LOOK_MS = 600_000
# Brokers that a topic is placed on: the transaction that creates it has a guard for each.
BROKERS_PER_TOPIC_MAX = 100
# How long a start waits for another program's lock on the metadata store.
METADATA_BUSY_SECONDS = 1
# Groups with their own configuration; the length of their names, which are metadata keys.
GROUP_CONFIGS_MAX = 10_000
GROUP_CONFIG_NAME_BYTES_MAX = 1_000
# A wall clock that differs more from CLOCK_BOOTTIME has stepped: expiry stops. Slewing up to the
# second limit, twice what the kernel does, is not a step; faster slewing adds up.
CLOCK_STEP_MS = 300_000
CLOCK_SLEW_PPM_MAX = 1_000
# How long a machine may have been off, a night; for longer only an operator can exclude a step.
CLOCK_DOWN_MS_MAX = 12 * 3_600_000
# How often stale connections are closed and events of logs are processed.
HOUSEKEEPING_SECONDS = 1
# A clean stop: how long connections may take to read their replies.
STOP_SECONDS = 10


def frame_bytes_max(setting: int, message_bytes_max: int) -> int:
    """The frame limit in force: the setting, but never less than the largest batch needs."""
    return max(setting, message_bytes_max + FRAME_SLACK_BYTES)


def decompressed_bytes_max(message_bytes_max: int) -> int:
    """Return the limit of one decompressed batch."""
    return max(DECOMPRESSED_BYTES_MIN, DECOMPRESSION_RATIO_MAX * message_bytes_max)


def compressed_pieces_max(size: int) -> int:
    """Return how many blocks a compressed input of `size` bytes may have."""
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
assert OLD_FETCH_BYTES_PER_TURN <= PYTHON_FETCH_BYTES_MAX <= FETCH_BYTES_MAX
assert HOUSEKEEPING_SECONDS < CONTENDED_FRAME_SECONDS < STALLED_SECONDS
assert FRAME_BYTES_PER_MS_MIN < CONTENDED_FRAME_BYTES_PER_MS_MIN
assert FIRST_REQUEST_SECONDS <= STALLED_SECONDS < CONNECTION_IDLE_MS // 1000
assert HOUSEKEEPING_SECONDS <= FIRST_REQUEST_SECONDS  # housekeeping enforces it
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
assert 2 * REPLICA_FETCH_PARTITIONS_NAMED_MAX <= NATIVE_FETCH_PARTITIONS_MAX  # and forgotten ones
assert PARTITIONS_PER_TOPIC_MAX <= NATIVE_FETCH_PARTITIONS_MAX <= PARTITIONS_PER_BROKER_MAX
assert DECOMPRESSED_BYTES_MIN >= DECOMPRESSION_RATIO_MAX * MESSAGE_BYTES_MAX
assert STAGED_BYTES_MIN <= STAGED_BATCH_BYTES_MAX <= STAGED_BYTES_MAX <= TAIL_RESERVE_BYTES_MIN
assert TAIL_RESERVE_BYTES_MIN <= TAIL_RESERVE_BYTES_MAX <= SEGMENT_BYTES_MAX
assert max(FRAME_BYTES_MAX, CURSUS_FRAME_BYTES_MAX) <= RECOMPRESSION_WAITING_BYTES_MAX
assert GROUP_CONFIG_NAME_BYTES_MAX + 24 <= METADATA_KEY_BYTES_MAX
assert CLUSTER_CHANGES_PER_TRANSACTION + 1 <= METADATA_OPS_PER_TRANSACTION_MAX
assert BROKERS_PER_TOPIC_MAX < METADATA_OPS_PER_TRANSACTION_MAX
assert RECOVERY_READ_BYTES >= MESSAGE_BYTES_MAX
assert GROUP_METADATA_BYTES_MAX <= MESSAGE_BYTES_MAX
assert SUBSCRIBED_NAMES_BYTES_MAX < GROUP_METADATA_BYTES_MAX
assert RUSTLOG_FRAME_BYTES_MAX < RUSTLOG_MESSAGE_BYTES_MAX < FRAME_BYTES_MAX
assert RUSTLOG_JSON_RECORDS_MAX * 21 < RUSTLOG_FRAME_BYTES_MAX
assert 2 * UNREAD_ANSWER_BYTES_MAX < SEND_BUFFER_BYTES
assert OPEN_TRANSACTIONS_MAX < CURSUS_TRANSACTIONS_REMEMBERED
assert READ_DECOMPRESSED_BYTES_MAX < CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX
assert MESSAGE_BYTES_MAX < CURSUS_CONSUME_BYTES_MAX < CURSUS_FRAME_BYTES_MAX
# The header of a response has a topic or pattern of up to 64 KiB.
assert CURSUS_CONSUME_BYTES_MAX + 128 * KIB < CURSUS_RESPONSE_BYTES_MAX <= LONG_ANSWERS_BYTES_MAX
