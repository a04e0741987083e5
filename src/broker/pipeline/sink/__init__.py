"""Rows of Spark into topics, at least once or exactly once.

    columns   which columns there may be, and what is wrong with others: before a job starts
    options   what the user has asked for
    rows      rows → record batches of partitions
    identity  which task of which batch of which query this is
    markers   what tasks have written, as records of a compacted topic
    task      one task: its rows, or the marker that says they are written
    writer    the sink of batch jobs
    stream    the sink of streams

Exactly once is per task: its rows and its marker are one transaction, so a batch that Spark runs
again leaves out the tasks whose marker is there. The batch as a whole is no transaction: while its
tasks end one after the other, readers see what those have written that have ended.
"""
