"""The limits of streams of events, which are in logs and in the files of their partitions."""

from typing import Final

from broker.model.limits import KIB, MIB

EVENT_KEY_BYTES_MAX: Final = 1 * KIB
SNAPSHOT_BYTES_MAX: Final = 1 * MIB  # quoted for JSON in one piece: 1 to 2 ms
EVENTS_PER_ANSWER_MAX: Final = 100_000  # as a batch of the protocol
EVENTS_READ_PER_STEP: Final = 250
# Memory for all partitions of a broker together: the versions that are known, the filters of new
# keys, of 12 bits each, and the events that are in no file yet. Above the last, appends wait until
# some have been written.
STREAM_VERSIONS_BYTES_MAX: Final = 12 * MIB
STREAM_FILTERS_BYTES_MAX: Final = 16 * MIB
EVENTS_RECENT_BYTES_MAX: Final = 16 * MIB
# A file is written once so many events have come, and every few seconds. Many at once share pages:
# with 1,000,000 streams each of 4,000 takes twice as long. After a crash a start reads them from
# the log, in 0.2 s.
EVENTS_RECENT_MAX: Final = 20_000
EVENTS_WRITTEN_PER_STATEMENT: Final = 2_000  # of which the thread makes a text: 1 ms
STREAM_FILES_OPEN_MAX: Final = 16
STREAM_FILE_CACHE_BYTES: Final = 1 * MIB  # of SQLite, of each open file
STREAM_FILE_LOG_PAGES: Final = 8_000  # of 4 KiB: SQLite's log of changes, before they are moved
STREAM_OFFSETS_PER_STATEMENT: Final = 10_000
STREAM_KEYS_READ_PER_STATEMENT: Final = 2_000  # made objects in 0.3 ms
STREAMS_LOOKED_UP_PER_STATEMENT: Final = 1_000
STREAMS_FORESEEN_MAX: Final = 100  # requests behind one that waits whose streams are looked up, too
# A request waits for so long for the streams of a partition to be loaded, or until a log that moves
# to another directory is there, then it is told to retry.
STREAMS_LOAD_WAIT_SECONDS: Final = 3.0
STREAMS_ROOM_WAIT_SECONDS: Final = 10.0  # likewise, for memory: the disk may be slow for a while
# How often files are looked at that have to be written, and how often all are, or followed.
STREAM_FILES_LOOK_SECONDS: Final = 0.1
STREAM_FILES_WRITE_SECONDS: Final = 2.0
STREAM_FILES_LOOKED_AT_PER_STEP: Final = 2_000  # 1 ms
# Records that the file of a log that moves may lack when its use is stopped, until they are read.
STREAM_MOVE_RECORDS_MAX: Final = 1_000  # 5 ms
STREAM_REPLICAS_WAIT_MS: Final = 2_000  # as of named producers
STREAMS_LOADED_BYTES_PER_STEP: Final = 32 * KIB  # of small events, 3 us each: 1 ms
