"""Deduplication for producers that choose their own ids (Cursus).

Kafka's producers have numeric ids from the broker, and the log remembers their last batches.
Producers with textual ids, int64 epochs and uint64 sequences are tracked here, per partition:
`sequences` decides which records of a batch are new, `tables` keeps that over a restart. The
headers of each record name its producer and sequence, in the protocol's format; a checkpoint holds
the state up to an offset, because retention and compaction remove records.
"""
