"""Writes rows of Spark to topics, at least once or exactly once.

    columns   checks the columns before a job starts
    options   the options of the sink
    rows      rows → the rows of each partition
    identity  identifies the query, batch and plan of a task
    markers   markers of completed tasks, as records of a compacted topic
    task      one task: writes its rows, unless its marker exists
    writer    the sink of batch jobs
    stream    the sink of streams

Exactly-once applies to tasks: the rows of a task and its marker are one transaction, so a batch
that Spark runs again skips the tasks whose marker exists. A batch as a whole is not a transaction:
readers see the rows of completed tasks before all tasks have completed.
"""
