"""The metadata store of a cluster: etcd v3 through its JSON gateway.

connection.py   requests and answers over HTTP/1.1
gateway.py      calls and streams, on one of several endpoints
store.py        keys, transactions, watches and leases
"""
