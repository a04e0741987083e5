"""Transactions: one pure state machine per transactional id, and what it needs done elsewhere.

    EndTxn -> no more batches (dismiss) -> data on the disk -> PrepareCommit -> durable -> response
                                                                                |
    CompleteCommit <- on the disk everywhere <- a marker in every log <---------+

A machine cannot write to other logs. It asks for that with a reply to the end driver, which leaves,
as every reply does, when the records before it are durable; the outcome comes back as a command. A
prepared transaction that a start finds is completed; an open transaction in a log that no
coordinator knows is aborted.

records               the state of a transactional id, in Kafka's format
commands              requests and responses
transaction           the state machine
end_rules             which ends are allowed, and their effect
shard                 the transactional ids of one partition of `__transaction_state`
names                 prefixes of transactional ids: Kafka's clients, other protocols
coordinator           the interface for protocols and the broker
waiters               requests that wait for the end of a transaction
step_queue            work on thousands of partitions, a limited number per turn
other_brokers         what transactions need of the other brokers of a cluster
remote_markers        markers for the partitions that other brokers lead
remote_admission      asks coordinators elsewhere whether a batch belongs to a transaction
end_driver            the end of a transaction in other logs: syncs, markers
hanging_transactions  open transactions that no coordinator knows, found at a start (standalone)
"""
