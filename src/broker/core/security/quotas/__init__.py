"""Quotas: how much of the broker a user, a client id or an address may use.

    entities.py         whom a quota is for, and which values it may have
    table.py            which of them applies to a client
    windows.py          over how much time a rate is measured
    buckets.py          what clients have used, for the quotas that are counted natively
    mutations.py        the same for partitions that are created and deleted
    client_quotas.py    all of it: from the metadata store to native code and the handlers
    connections.py      how many connections there may be, and how fast they may come

The arithmetic is Kafka's (src/_native/kernel/sampled_rate.pyx).
"""
