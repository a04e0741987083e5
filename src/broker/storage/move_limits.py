"""The limits of moves between directories."""

from broker.model.limits import KIB, MIB

# One step of a copy, after which the move may be ended or throttled, and what is copied of a file
# before it is synced: one sync of a whole segment would delay all others of the disk.
MOVE_STEP_BYTES = 1 * MIB
MOVE_SYNC_BYTES = 16 * MIB
# What the I/O thread still copies before a switch, and the loop within it: 0.1 ms for the latter.
MOVE_SWITCH_BYTES_MAX = 4 * MIB
MOVE_TAIL_BYTES_MAX = 256 * KIB
# How often the rest is copied while a log is held, before the switch is given up for a while.
MOVE_ATTEMPTS_MAX = 10
MOVE_RETRY_SECONDS = 0.2
# A sync that runs when a log is held is waited for in steps of a millisecond.
MOVE_LOOK_SECONDS = 0.001
MOVE_LOOKS_MAX = 10_000
# How long a throttled move waits before it reads the rate again.
MOVE_PAUSE_SECONDS_MAX = 1.0
# Partitions that do not exist yet whose directory is remembered; the oldest are forgotten.
PREFERRED_DIRECTORIES_MAX = 10_000
