"""The logs of partitions: reading, waiting, loading, recompression."""
