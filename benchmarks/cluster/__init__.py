"""Rows of a cluster in `make bench`: brokers as processes, etcd on the same machine.

===============  ================================================================================
`rows.py`        the table of rows and their goals
`brokers.py`     etcd and the brokers of one cluster
`requests.py`    the cost of a request in a cluster, compared with a standalone broker
`changes.py`     from a change of metadata until all brokers show it, compared with etcd's watch
`failover.py`    from the end of the controller's broker until others have taken over its work
`partitions.py`  10,000 partitions on three brokers: creation, start, Metadata, memory, leaders
===============  ================================================================================

`make bench BENCH="'cluster-*'"` runs these alone. Without etcd they are skipped.
"""
