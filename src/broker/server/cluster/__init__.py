"""Drives the state machines of `core/cluster`: store, leases and timers of one broker in a cluster.

writing      executes the transactions that a state machine makes
machine_driver  what the drivers of the machines of one incarnation have in common
metadata     the image, fed by a watch; changes of this broker
member       the registration of this broker and its lease
controller   the controller's office: claiming it, and the work while it is held
handover     moving leaderships away from this broker
logs         the logs of this broker, by the ids of their partitions
following    topics and configurations that follow the image
isr          the ISRs of what this broker leads
replicating  copying what others lead, over one link (replica_link) to each of them
failed_logs  giving up the partitions whose logs have failed
intactness   since when the data directory has everything that it acknowledged
probing      noticing at once that the process of another broker has died
"""
