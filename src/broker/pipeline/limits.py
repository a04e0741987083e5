"""The limits of pipelines on Spark; those of the broker are in model/limits.py."""

from broker.model.limits import MIB

# Timeout of `java -version`.
JAVA_VERSION_SECONDS = 20
# Rows that the sink buffers before it sends them: some batches for each of a few partitions. With
# the overhead of records and one more batch of Spark's, they fit into one Produce.
SINK_CHUNK_BYTES = 6 * MIB
# Kafka's delivery.timeout.ms: a killed broker has restarted by then.
SINK_GIVE_UP_MS = 120_000
# Default timeout of one task's transaction in an exactly-once sink. After a task is killed, readers
# of committed records may have to wait that long.
SINK_TRANSACTION_MS = 300_000
# A topic of markers that the sink makes; a record is 200 bytes, and a new worker reads a partition.
SINK_MARKER_PARTITIONS = 4
SINK_MARKER_SEGMENT_BYTES = 16 * MIB
# Queries whose markers a worker caches, so that it reads only new ones.
SINK_QUERIES_REMEMBERED = 16
# Send interval of a sink with a rate limit: a chunk has the rows of one interval.
SINK_PACE_MS = 250
# Of an archive: the file size that query engines prefer; default offsets of a task and of a commit;
# days whose files a task has open at the same time.
ARCHIVE_FILE_BYTES = 128 * MIB
ARCHIVE_TASK_RECORDS = 1_000_000
ARCHIVE_COMMIT_RECORDS = 8_000_000
ARCHIVE_FILES_OPEN = 16
# Files older than this that no commit has named belong to a run that was killed.
ARCHIVE_ORPHAN_HOURS = 7 * 24
# Offsets of a partition that a replay writes in one transaction, and its longest duration.
REPLAY_SLICE_RECORDS = 2_000_000
REPLAY_SLICE_SECONDS = 60
DEDUPE_BATCH_RECORDS = 2_000_000  # default offsets of a batch
