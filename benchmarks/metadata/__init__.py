"""The metadata stores of a cluster: SQLite shared by processes, and etcd."""
