"""Every maximum of the broker, with its reason; the relations between them hold at import.

What a peer could make the broker allocate, queue or do is bounded by a name in this file. Limits
that an operator may move are settings (model/settings.py) whose defaults stand here. Sizes are in
bytes where the name says so, times carry their unit, everything else is a count.
"""

KIB = 1 << 10
MIB = 1 << 20

# --- frames and turns -----------------------------------------------------------------------------

# Largest request frame. Kafka allows 100 MiB; here a frame is held whole, so 2,000 connections
# that each announce one must stay payable. Raised by itself to MESSAGE_BYTES_MAX + FRAME_SLACK.
FRAME_BYTES_MAX = 16 * MIB
# What a frame may need beside its largest batch: header, topic names, other small batches.
FRAME_SLACK_BYTES = 1 * MIB
# Largest record batch accepted by default: Kafka's 1 MiB and the 12 bytes of the oldest overhead.
MESSAGE_BYTES_MAX = 1 * MIB + 12
# Largest frame before authentication, for listeners that ask for it: a SASL token and a name.
FRAME_BYTES_UNAUTHENTICATED_MAX = 64 * KIB
# Receive buffer a connection starts with; a larger frame gets a buffer of its exact size.
RECEIVE_BUFFER_BYTES = 64 * KIB
# One connection's share of a turn of the loop: after so many frames or bytes it waits for the next.
FRAMES_PER_TURN = 64
BYTES_PER_TURN = 1 * MIB
# Largest send per connection and turn: sendfile of a cold range must not hold the loop for long.
SEND_BYTES_PER_TURN = 1 * MIB
# Longest that one request may keep the loop; longer work is cut up or leaves for a thread.
LOOP_SLICE_MS_MAX = 5

# --- connections ----------------------------------------------------------------------------------

CONNECTIONS_MAX = 10_000
# File descriptors that connections may never take: segments, indexes and the metadata store.
DESCRIPTORS_RESERVED = 64
# Time from accept to the first whole request; slow-loris clients end here.
FIRST_REQUEST_SECONDS = 10
# A frame that has begun must end: no byte for so long closes the connection.
STALLED_FRAME_SECONDS = 30
# A peer that reads none of its waiting replies for so long is closed.
STALLED_REPLY_SECONDS = 30
# Kafka closes a silent connection after ten minutes; clients reconnect without an error.
CONNECTION_IDLE_MS = 600_000
LISTEN_BACKLOG = 1024
# What the kernel may hold of one connection's replies, as Kafka's socket.send.buffer.bytes. Left to
# itself it grows to megabytes, and a fetch of cached data goes through memory instead of the
# processor's cache: 0.61 CPU-s/GB at 1 MB per partition, 0.25 with this (medians, 5 and 3 rounds).
SEND_BUFFER_BYTES = 100 * KIB
# Waiting requests (long polls, slow handlers) in flight per connection; then reading stops.
# Kafka's clients send at most five.
SLOW_REQUESTS_PER_CONNECTION = 5
# Produce acks in flight are bounded by the bytes they hold, because clients may send a request per
# partition and thousands of small ones are honest.
PENDING_ACK_BYTES_PER_CONNECTION = 32 * MIB
# Replies queued for a peer that does not read; above it the connection's requests stop.
REPLY_QUEUE_BYTES_PER_CONNECTION = 64 * MIB
# Heads and slices in that queue, whatever their size.
REPLY_QUEUE_CHUNKS_PER_CONNECTION = 16_384
# Small replies leave in one writev; IOV_MAX of Linux is 1,024.
CHUNKS_PER_SEND = 1024

# --- what a request may contain -------------------------------------------------------------------

CLIENT_ID_BYTES_MAX = 255
TOPIC_NAME_BYTES_MAX = 249  # Kafka's: a folder name must hold it, a dash and a partition
STRING_BYTES_MAX = 32_767  # an int16 length
TAGS_PER_STRUCT_MAX = 64
PARTITIONS_PER_REQUEST_MAX = 10_000
PARTITIONS_PER_TOPIC_MAX = 10_000
# Descriptors, mappings and 300 bytes of hot state each.
PARTITIONS_PER_BROKER_MAX = 50_000
TOPICS_PER_REQUEST_MAX = 10_000
RECORD_HEADERS_MAX = 1_000
RECORD_BYTES_MIN = 7  # an empty record of magic 2: a batch of n bytes holds at most n / 7
# Decompression is always bounded. Four times the largest batch serves honest compressors; a bomb
# (zstd 32,000:1) stops there.
DECOMPRESSION_RATIO_MAX = 4
DECOMPRESSED_BYTES_MIN = 16 * MIB
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
FETCH_SESSIONS_PER_ADDRESS_MAX = 20
PARTITIONS_PER_FETCH_SESSION_MAX = PARTITIONS_PER_REQUEST_MAX

# --- producers ------------------------------------------------------------------------------------

# Ids per partition are swept by producer.id.expiration.ms; the oldest make room before that.
PRODUCER_IDS_PER_PARTITION_MAX = 10_000
PRODUCER_IDS_PER_BROKER_MAX = 100_000
PRODUCER_BATCHES_REMEMBERED = 5  # Kafka's: clients keep at most five in flight
PRODUCER_ID_BLOCK = 1_000  # Kafka's: one durable write per thousand ids
TRANSACTIONAL_IDS_MAX = 10_000

# --- groups ---------------------------------------------------------------------------------------

GROUPS_MAX = 10_000
MEMBERS_PER_GROUP_MAX = 1_000
# Subscriptions and assignments of all members of a group together, held in memory and written to
# __consumer_offsets as one record.
GROUP_METADATA_BYTES_MAX = 1 * MIB
GROUP_PROTOCOLS_PER_MEMBER_MAX = 64
# Members that were given an id and have not joined with it yet (KIP-394).
PENDING_MEMBERS_PER_GROUP_MAX = MEMBERS_PER_GROUP_MAX
OFFSET_METADATA_BYTES_MAX = 4_096
# Committed offsets held by one group.
OFFSETS_PER_GROUP_MAX = 100_000

# --- logs -----------------------------------------------------------------------------------------

# An active segment's reserved tail starts small, so that a thousand idle topics cost nothing, and
# doubles while the partition is written to.
TAIL_RESERVE_BYTES_MIN = 64 * KIB
TAIL_RESERVE_BYTES_MAX = 16 * MIB
INDEX_INTERVAL_BYTES = 4_096
INDEX_BYTES_MAX = 10 * MIB
OFFSET_INDEX_ENTRY_BYTES = 8
TIME_INDEX_ENTRY_BYTES = 12
INDEX_ENTRIES_MAX = INDEX_BYTES_MAX // OFFSET_INDEX_ENTRY_BYTES
SEGMENT_BYTES_MAX = (1 << 31) - 1  # index positions are int32
LEADER_EPOCHS_REMEMBERED_MAX = 10_000
# fdatasync in flight, each of another file: 8 gave 1.4x the syncs per second of 4 (measured).
SYNC_THREADS = 8
SYNC_JOBS_QUEUED_MAX = PARTITIONS_PER_BROKER_MAX
COLD_READ_THREADS = 2
# Cold ranges one reader thread turns into page cache before the connection asks again.
COLD_READ_BYTES = 1 * MIB
# Recovery reads segments in pieces; a piece must hold the largest batch.
RECOVERY_READ_BYTES = 4 * MIB

# --- metadata, logging, stopping ------------------------------------------------------------------

METADATA_OPS_PER_TRANSACTION_MAX = 120  # etcd refuses 129 (measured)
METADATA_KEY_BYTES_MAX = 1_024
METADATA_VALUE_BYTES_MAX = 1 * MIB  # etcd refuses 1.6 MB (measured)
CONFIGS_PER_TOPIC_MAX = 100
LOG_LINES_PER_SECOND_MAX = 100  # per kind of event, then they are counted instead
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
assert FRAME_BYTES_UNAUTHENTICATED_MAX < FRAME_BYTES_MAX
assert MESSAGE_BYTES_MAX + FRAME_SLACK_BYTES <= FRAME_BYTES_MAX
assert RECEIVE_BUFFER_BYTES <= BYTES_PER_TURN <= FRAME_BYTES_MAX
assert PENDING_ACK_BYTES_PER_CONNECTION >= FRAME_BYTES_MAX
assert REPLY_QUEUE_BYTES_PER_CONNECTION >= FETCH_BYTES_MAX
assert REPLY_QUEUE_CHUNKS_PER_CONNECTION >= PARTITIONS_PER_REQUEST_MAX
assert FIRST_REQUEST_SECONDS <= STALLED_FRAME_SECONDS < CONNECTION_IDLE_MS // 1000
assert PARTITIONS_PER_TOPIC_MAX <= PARTITIONS_PER_REQUEST_MAX <= PARTITIONS_PER_BROKER_MAX
assert PRODUCER_IDS_PER_PARTITION_MAX <= PRODUCER_IDS_PER_BROKER_MAX
assert DECOMPRESSED_BYTES_MIN >= DECOMPRESSION_RATIO_MAX * MESSAGE_BYTES_MAX
assert TAIL_RESERVE_BYTES_MIN <= TAIL_RESERVE_BYTES_MAX
assert RECOVERY_READ_BYTES >= MESSAGE_BYTES_MAX
assert INDEX_BYTES_MAX % OFFSET_INDEX_ENTRY_BYTES == 0
assert GROUP_METADATA_BYTES_MAX <= MESSAGE_BYTES_MAX
