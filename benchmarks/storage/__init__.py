"""The log alone, beside what the machine can do at best: no sockets, no requests.

===============  ===============================================================
`bench.py`       the command: options, tables, exit code
`appends.py`     processor time per batch appended, and its floors
`lookups.py`     an offset found in an index of a million entries
`retention.py`   how long the loop stands still while 10,000 segments go
`verify.py`      every byte of a segment looked at, its CRCs and its digest
`compaction.py`  its kernel and its process; a command of its own
`loops.pyx`      the loops that are measured
`floors.c`       CRC and memcpy, pwrite, and stores into a populated mapping
===============  ===============================================================
"""
