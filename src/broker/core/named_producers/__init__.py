"""Producers that name themselves, and what of each has arrived: so that nothing is stored twice.

Kafka's producers have a number from the broker, and the log keeps their last batches. Producers of
a dialect whose ids are texts, epochs int64 and sequences u64 are known here instead, per partition:
`sequences` decides what of a batch is new, `tables` keeps that over a restart. The records say who
wrote them in their headers, in the dialect's own words; a file says what they said up to an offset,
because retention and compaction take records away.
"""
