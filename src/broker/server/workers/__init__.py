"""Several brokers of one host on one data directory: `polylog.workers`, `broker start --workers N`.

    supervisor   the process that the user starts: it forks the workers and restarts them
    policy       when a worker is restarted, and when all of them end
    ports        the addresses of the workers
    worker       a worker's side: what it was given, and how it knows that it has to stop
    layout       the data directory as one broker has it, and as several share it
    opening      the metadata of a worker

    data directory         who writes to it
    metadata.db            all workers (storage/metadata/sqlite/shared.py)
    TOPIC-PARTITION        the worker that leads the partition, after it has claimed the folder
                           (storage/recovery/shared_folders.py)
    *-offset-checkpoint    all workers, each its own entries (storage/checkpoints/shared_offsets.py)
    partitions-locks       nobody: locks of the folders and of the checkpoints
    workers/ID             one worker: its reserve of disk space, clock, progress of compaction,
                           copies of V1's groups
    broker.lock            the supervisor; the lock is free when all workers have ended, too

The memory of a supervisor is that of a command: it imports nothing that a worker needs.
"""
