"""The limits of the metadata stores; those that others need, too, are in model/limits.py."""

from broker.model.limits import KIB, MIB

# What watches of the SQLite store read: changes of whole revisions, the latest ones. Enough for a
# change of all partitions of a host; a watch that is further behind scans again.
METADATA_HISTORY_ROWS_MAX = 20_000
METADATA_HISTORY_BYTES_MAX = 32 * MIB
METADATA_EVENTS_PER_READ = 500
# How often a process looks for changes, and for leases that are over, of which nobody told it.
METADATA_LOOK_SECONDS = 0.2
# The deadline of one attempt at one endpoint. An election takes 1.2 to 1.9 s (measured), and then
# another endpoint answers.
ETCD_ATTEMPT_SECONDS = 1
ETCD_ELECTION_SECONDS = 2
ETCD_AUTHENTICATION_SECONDS = 3  # an attempt that needs a token first: etcd hashes the password
# A watch that is silent for so long is opened again: its endpoint may be gone.
ETCD_WATCH_SILENCE_SECONDS = 10
ETCD_CONNECTIONS_KEPT_MAX = 4
ETCD_LINE_BYTES_MAX = 64 * KIB  # of headers and sizes of chunks
ETCD_ANSWER_BYTES_MAX = 64 * MIB
ETCD_KEYS_PER_PAGE = 250  # about 1 ms to parse
