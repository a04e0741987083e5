"""Transactions: one state machine per transactional id, pure; what it needs done is its replies.

    EndTxn -> no more batches (dismiss) -> data on the disk -> PrepareCommit -> durable -> answer
                                                                                |
    CompleteCommit <- on the disk everywhere <- a marker in every log <---------+

A machine cannot write to other logs. What it needs done there is a reply to the outside, so it
leaves, as every reply does, when the records before it are durable; what came of it is a command.
A decision that is found after a restart is finished; a transaction that is open in a log while no
coordinator knows it is aborted.

records      what a transaction remembers, in Kafka's format
commands     what can be asked, and the answers
transaction  the state machine
shard        the transactional ids of one partition of `__transaction_state`
names        whose a transactional id is: of Kafka's clients, or of another dialect
coordinator  the one face of transactions that protocols and the broker see
turns        thousands of partitions, so many of them in a turn
ending       what a decision needs done in other logs: syncs, markers
orphans      open transactions that nobody knows, found at a start
"""
