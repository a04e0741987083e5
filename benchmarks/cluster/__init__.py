"""Rows of a cluster in `make bench`: brokers as processes, etcd on the same machine.

===============  ================================================================================
`rows.py`        the table of rows and their goals
`brokers.py`     etcd and the brokers of one cluster
`requests.py`    the cost of a request in a cluster, compared with a standalone broker
`changes.py`     from a change of metadata until all brokers show it, compared with etcd's watch
`failover.py`    from the end of the controller's broker until others have taken over its work
`partitions.py`  10,000 partitions on three brokers: creation, start, Metadata, memory, leaders
`replicated.py`  three brokers with replicated topics, for the two files that follow
`replicas.py`    what copies cost: processor time, latency, catch-up, an idle cluster
`failures.py`    a leader, a coordinator or the store ends, sleeps or is stopped
`workers.py`     two workers on two cores, compared with one broker on one: cost, throughput
===============  ================================================================================

`make bench BENCH="'cluster-*' 'replica-*' workers"` runs these alone. Without etcd all but
`workers`, whose metadata is in SQLite, are skipped.
"""
