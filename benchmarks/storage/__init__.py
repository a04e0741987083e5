"""The log without sockets and requests, compared with lower bounds (floors).

===============  ===============================================================
`bench.py`       the command: options, tables, exit code
`appends.py`     processor time per batch appended, and its floors
`lookups.py`     an offset lookup in an index of a million entries
`retention.py`   the stall of the event loop while 10,000 segments are deleted
`verify.py`      the check of a segment: CRCs and digest
`compaction.py`  the kernel and the process of compaction; a separate command
`loops.pyx`      the measured loops
`floors.c`       CRC and memcpy, pwrite, and stores into a populated mapping
===============  ===============================================================
"""
