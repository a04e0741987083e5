"""The metadata store of a cluster: etcd v3 through its JSON gateway.

gateway.py   requests and streams over HTTP/1.1, on one of several endpoints
store.py     keys, transactions and watches
lease.py     a lease and its renewal
"""
