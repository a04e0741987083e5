"""Limits of what a connection has written and cannot read yet."""

# How long a read waits for the replicas of what its connection has written in front of it without
# waiting for them (acks=1, acks=0): well below the timeouts of clients, of which the shortest is
# 5 s. A replica that has not copied it by then is late, and may leave the ISR.
UNCOPIED_WAIT_MS = 1_000
