"""Spark's daemon of Python workers, which has imported what they need before it forks them.

Spark starts a worker for each plan of a source and forgets it; each imported PySpark's SQL, pyarrow
and pandas again, half a second of the processor's time. These start threads when they are imported
if they may; a process that forks must have one, so they may not.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of numpy
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # of pyarrow

import pandas as pd  # type: ignore[import-untyped]  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark import daemon, worker  # noqa: F401
from pyspark.sql.worker import (  # noqa: F401
    commit_data_source_write,
    create_data_source,
    data_source_pushdown_filters,
    plan_data_source_read,
    write_into_data_source,
)

if __name__ == "__main__":
    daemon.manager()
