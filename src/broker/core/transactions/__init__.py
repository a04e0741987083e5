"""Transactions: one state machine per transactional id, pure; what it needs done is its replies.

records      what a transaction remembers, in Kafka's format
commands     what can be asked, and the answers
transaction  the state machine
shard        the transactional ids of one partition of `__transaction_state`
coordinator  the one face of transactions that protocols and the broker see
ending       what a decision needs done in other logs: syncs, markers
orphans      open transactions that nobody knows, found at a start
"""
