"""The state of a cluster: its brokers, the leader of each partition, and who decides it.

    store ── entries, changes ──> ClusterImage ── Delta ──┬─> Controller ──────> Transaction
                                                          ├─> HandOver ────────> Transaction
                                                          ├─> IsrChanges ──────> Transaction
                                                          └─> whoever opens and closes partitions
    lease, time ────────────────> Membership ── Action ──> store

records      keys and values of the metadata store
image        what this broker knows of the cluster, from a scan and the changes after it
placement    replicas of new partitions
topics       transactions that create, enlarge and delete topics
eligibility  which members of an ISR have everything, by the brokers that are registered
topic_settings  min.insync.replicas and the like, of each topic
election     the next state of one partition
reassignment  other replicas for a partition: its steps
growth       more replicas for internal topics when brokers join
scan         partitions to look at, in slices
balance      brokers that lead too few of the partitions of which they are the preferred leader
writes       transactions on many partitions: batches, one in flight per partition, retries
machine      what the state machines that write have in common
controller   elections, ISR without failed brokers, balance of leaders, left-over keys
handover     the leader's own part in moving a leadership: it stops, then names its successor
isr          the leader's changes of the ISR: who has caught up, who lags
unclean      what is told of an election that may lose records
failed_logs  what a broker gives up of the partitions whose logs have failed here
following_plan  which partitions are copied from which leader, and when again
membership   registration, fencing and departure of one broker
fencing      whether the process of another broker has died, before its lease ends
counts       replicas and leaders by broker
seen         how often leaders and ISRs have changed
unique_queue a queue that holds each item once
slices       work in slices of at most 2 ms

Nothing here reads a clock, does I/O or awaits: times and revisions are arguments, transactions are
results. The driver executes them and reports their outcome.
"""
