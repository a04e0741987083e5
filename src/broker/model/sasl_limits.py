"""The limits of connections before their login, and of logging in.

The default of sasl.server.max.receive.size is here, too: a frame is held twice while it is served,
once received and once decoded; or once, beside 18 KiB of a TLS connection and the 17 KiB in which
OpenSSL has received a record. With either a connection that has not logged in takes 64 KiB.
"""

from broker.model.limits import KIB

LOGIN_FRAME_BYTES_MAX = 17 * KIB  # a token of some authorization servers has 16 KiB
# Received at a time before the login: a frame, and what a client sends without waiting.
LOGIN_RECEIVE_BYTES = 32 * KIB
# Connections that have not logged in: with one more, those of the address that has most of them are
# closed, the oldest first, so that connections which never log in do not keep others out.
LOGINS_WAITING_MAX = 2_000
LOGIN_SECONDS = 15  # from the connection to its login, TLS included
# Computations of logins that wait for the thread: each takes some milliseconds. With more, a login
# of the address that has most of them is refused as with wrong credentials.
LOGIN_WORK_WAITING_MAX = 1_000
# The answer to a failed login is held back twice as long as the one before, from the same address
# for the same user: so many times connection.failed.authentication.delay.ms at most, and so long.
# It stays within LOGIN_SECONDS.
FAILURE_DELAY_TIMES_MAX = 50
FAILURE_DELAY_MS_MAX = 5_000
FAILURES_FORGOTTEN_MS = 60_000
FAILURES_REMEMBERED_MAX = 4_096  # 150 bytes each
# The least time between the starts of two re-authentications of a connection, as in Kafka.
REAUTHENTICATION_MS_MIN = 1_000
# Derived keys of delegation tokens, kept for their next logins: 400 bytes each.
TOKEN_CREDENTIALS_KEPT_MAX = 1_000
TOKENS_READ_PER_STEP = 100  # 15 us each
# A message of SCRAM, which is kept until the next one; the longest of clients has some 500 bytes.
SCRAM_MESSAGE_BYTES_MAX = 4 * KIB
# Of signed tokens: their header, the keys of an authorization server, and how often these are
# fetched again for a token with an unknown key.
TOKEN_HEADER_BYTES_MAX = 2 * KIB
TOKEN_KEYS_MAX = 64
TOKEN_KEYS_BYTES_MAX = 256 * KIB
TOKEN_KEYS_FETCH_SECONDS = 10  # of one attempt
TOKEN_KEYS_AGAIN_SECONDS = 10  # from the end of a fetch to the next one
# What a server may make a client compute: 0.5 s.
CLIENT_ITERATIONS_MAX = 1_000_000
CLIENT_CONFIG_BYTES_MAX = 1 << 20  # a client's file of settings, with its certificates
PASSWORD_FILE_BYTES_MAX = 4 * KIB
USER_NAME_BYTES_MAX = 255
SALT_BYTES_MAX = 1_024
DELEGATION_TOKEN_RENEWERS_MAX = 64
