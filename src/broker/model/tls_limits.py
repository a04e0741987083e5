"""The limits of TLS; those of all connections are in limits.py."""

from broker.model.limits import KIB

# What is received and sent in one system call; smaller ones cost up to a third more (measured).
TLS_SCRATCH_BYTES = 256 * KIB
# What OpenSSL is given at a time: so many records at most, since each that changes keys takes
# 0.07 ms.
TLS_RECORDS_PER_PIECE = 32
# Records that are opened before others are served: each takes 1.7 us or more.
TLS_RECORDS_PER_READ = 768
# Connections of which more was received than that, all together. Others receive so many bytes at a
# time meanwhile, which have no more records: an encrypted one has 22 bytes or more.
TLS_HOLDING_MAX = 16
TLS_SHORT_PIECE_BYTES = 16 * KIB
# Records without data (new keys, attempts to renegotiate, empty ones) in so many bytes of data.
TLS_RECORDS_WITHOUT_DATA_MAX = 32
TLS_RECORDS_WITHOUT_DATA_BYTES = 1024 * KIB
# And so many bytes at most: two records of the largest size. It keeps buffers of 1.3 times as
# much for a connection that was ever busy.
TLS_PIECE_BYTES = 32 * KIB
# The same while a handshake or a login is under way, from whoever it is.
TLS_HANDSHAKE_PIECE_BYTES = 2 * KIB
# OpenSSL would allocate 128 KiB for a first message that announces them.
TLS_CLIENT_HELLO_BYTES_MAX = 16 * KIB
# All certificates of a peer together: OpenSSL makes room for what is announced, unless told
# otherwise for up to 100 KiB. So much it has anyway. A chain of four with RSA 4096 has 8 KiB.
TLS_CERTIFICATES_BYTES_MAX = 16 * KIB
# From the accept on. asyncio's own limit is 60 s.
TLS_HANDSHAKE_MS_MAX = 10_000
# Each step of a handshake takes 0.1 to 2 ms of the loop: others are served in between.
TLS_HANDSHAKE_STEPS_PER_TURN = 2
# How often the files of keys and certificates are looked at.
TLS_FILES_LOOK_SECONDS = 5
TLS_EXPIRY_LOOK_SECONDS = 3600
TLS_EXPIRY_WARNING_DAYS = (30, 14, 3)
TLS_FAILURES_LOGGED_SECONDS = 10
# Principal mapping rules and the names that they are applied to.
PRINCIPAL_RULES_MAX = 64
CERTIFICATE_NAME_CHARS_MAX = 4096
