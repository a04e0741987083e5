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
SECURITY_NAME_BYTES_MAX: Final = METADATA_KEY_BYTES_MAX - 64  # the prefix and the kind precede it

# A text from a client in an audit event, such as the name that a failed login claimed.
AUDIT_TEXT_CHARACTERS_MAX: Final = 512

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
