"""The metadata store of one host: `metadata.db`, SQLite in WAL mode.

database.py       the file of one process, locked; blocking calls
shared.py         the same file for several processes
history.py        the latest changes, for watches
leases.py         leases and the keys attached to them
process_locks.py  locks that end with their process, and tell others that it has ended
wakeups.py        datagrams that tell other processes of a commit
store.py          MetaStore over either file: an event loop, and a thread for the calls
"""

from broker.storage.metadata.sqlite.database import FILE_NAME, SqliteMetaStore

__all__ = ["FILE_NAME", "SqliteMetaStore"]
