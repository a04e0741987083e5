"""The limits of access control: what is stored, what clients may ask, what is recorded."""

from typing import Final

from broker.model.limits import KIB, METADATA_KEY_BYTES_MAX

# Entries of each kind in the metadata store (core/cluster/security_entries.py). All are in memory,
# about 0.6 KB each, and a start reads them; etcd sends 250 of them in 1 ms.
ACLS_MAX: Final = 20_000
SCRAM_CREDENTIALS_MAX: Final = 20_000
DELEGATION_TOKENS_MAX: Final = 20_000
CLIENT_QUOTAS_MAX: Final = 20_000
SECURITY_VALUE_BYTES_MAX: Final = 16 * KIB
# For how long a pattern of a group keeps to what its member was allowed to describe, as in Kafka.
PATTERNS_AUTHORIZED_MS: Final = 600_000
SECURITY_ENTRIES_TOLD_PER_STEP: Final = 50  # to those who watch them, after a load: 10 us each
SECURITY_NAME_BYTES_MAX: Final = METADATA_KEY_BYTES_MAX - 64  # the prefix and the kind precede it

# A text from a client in an audit event, such as the name that a failed login claimed.
AUDIT_TEXT_CHARACTERS_MAX: Final = 512

# Topics that a broker names to another one for a pattern of Cursus's: half of a command's text.
CURSUS_TOPICS_PER_COMMAND: Final = 500

# Buckets of quotas (core/security/quotas): one per owner, and clients choose their ids. Those of
# each kind share QUOTA_BUCKETS_BYTES_MAX; a bucket takes QUOTA_BUCKET_BYTES and its samples.
QUOTA_BUCKETS_BYTES_MAX: Final = 16 << 20
QUOTA_BUCKET_BYTES: Final = 600
QUOTA_SAMPLE_BYTES: Final = 24
QUOTA_BUCKETS_SEARCHED: Final = 16  # for one that is unused, before one in use is dropped
QUOTA_WINDOWS_MAX: Final = 1_000
QUOTA_WINDOW_SECONDS_MAX: Final = 3_600
# Longer client ids are not compared with those of the last request, but looked up each time; a
# bucket is that of their digest.
QUOTA_NAME_BYTES_KEPT: Final = 256
# For how long a client rests at a time whose protocol cannot tell it so.
QUOTA_UNTOLD_REST_MS_MAX: Final = 30_000
QUOTA_ENTITIES_PER_STEP: Final = 500  # compared with a filter, checked or described
QUOTAS_PER_TRANSACTION: Final = 50  # altered entities; etcd allows 128 operations

# Connections that are above the rate of their address are closed after a time; above this number
# at once.
THROTTLED_CONNECTIONS_MAX: Final = 1_000
# A file with a password, a key with its certificates, or trusted certificates.
SECRET_FILE_BYTES_MAX: Final = 1 << 20

# Events that wait for the audit's thread; one has 400 bytes usually, 30 KiB at most.
AUDIT_QUEUE_EVENTS: Final = 4_096
# Events that are written with one sync of the file: at 300 us a sync this is no bound for a disk.
AUDIT_EVENTS_PER_WRITE: Final = 512
# A line of the audit: eight texts of AUDIT_TEXT_CHARACTERS_MAX, with 12 bytes for a character that
# JSON escapes as a surrogate pair, and the names of the fields.
AUDIT_LINE_BYTES_MAX: Final = 64 << 10
AUDIT_FILE_BYTES_MAX: Final = 100 << 20
AUDIT_FILES_MAX: Final = 100
# After a failed write; requests are refused meanwhile if the audit is fail-closed.
AUDIT_RETRY_MS: Final = 500
# Lines that are in the file and not in the topic yet, because that cannot be written.
AUDIT_TOPIC_LINES_MAX: Final = 8_192
AUDIT_STOP_SECONDS: Final = 5
AUDIT_TOPIC_BATCH_BYTES: Final = 256 << 10
AUDIT_TOPIC_RETRY_MS: Final = 2_000

# Decisions of the authorizer that are kept until an entry changes: 0.3 KB each, and up to 1 KB with
# a name of this length, which may not be ASCII. Those on longer names are made each time.
DECISIONS_KEPT_MAX: Final = 20_000
DECISION_NAME_CHARACTERS_KEPT: Final = 256
# Topics per principal and address whose permissions the native paths know: 16 bytes each.
PERMITTED_TOPICS_MAX: Final = 8_192
PERMITTED_TRANSACTIONAL_IDS_MAX: Final = 1_024
ACLS_PER_STEP: Final = 250  # compared with a filter and described, or created: 4 us each
REMOTE_APPEND_SECONDS: Final = 10  # until the leader has answered

# Users that one request names.
USERS_ANSWERED_PER_STEP: Final = 500
