"""The limits of access control: what one broker or cluster keeps, and what a request may ask."""

from broker.model.limits import KIB, METADATA_KEY_BYTES_MAX

# Entries of each kind in the metadata store (core/cluster/security_entries.py). All are in memory,
# about 0.6 KB each, and a start reads them; etcd sends 250 of them in 1 ms.
ACLS_MAX = 20_000
SCRAM_CREDENTIALS_MAX = 20_000
DELEGATION_TOKENS_MAX = 20_000
CLIENT_QUOTAS_MAX = 20_000
SECURITY_VALUE_BYTES_MAX = 16 * KIB
SECURITY_NAME_BYTES_MAX = METADATA_KEY_BYTES_MAX - 64  # the rest is for the prefix and the kind
