"""A Spark session that is set up for the pipelines.

    from broker.pipeline import session
    spark = session()                     # local[*]; or session("spark://host:7077")

Only a session that is made here gets settings from here: one that the program has made already is
returned as it is.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.codec.packages import needed
from broker.model.errors import ConfigError
from broker.pipeline.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_REMOTE: Final = ("spark://", "yarn", "k8s://", "local-cluster[")
_PYTHON: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def session(
    master: str = "local[*]",
    *,
    app_name: str = "polylog",
    shuffle_partitions: int | None = None,
    options: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return the active Spark session, or make one.

    A new one gets this Python for its workers (where PYSPARK_PYTHON does not say another), UTC as
    its time zone and, when it is local: a Java that works (see find_java), two shuffle partitions
    per core, addresses of this machine only, no web pages.

    Args:
        master: where Spark runs, in its own notation: local[N], local[*], spark://HOST:PORT, ...
        app_name: what it is called there.
        shuffle_partitions: how many parts a shuffle makes; a stream keeps its first number.
        options: Spark's settings by name; they go before those from here.

    Raises:
        ConfigError: no such master, or a number of partitions below 1.
        Unsupported: pyspark is not installed, or no Java 17.
    """
    cores = _local_cores(master)
    if shuffle_partitions is not None and shuffle_partitions < 1:
        raise ConfigError(f"shuffle_partitions: {shuffle_partitions}, expected 1 or more")
    spark_session: type[SparkSession] = needed("pyspark.sql", "a Spark session").SparkSession
    active = spark_session.getActiveSession()
    if active is not None:
        return active
    builder = spark_session.builder.master(master).appName(app_name)
    settings = settings_of(cores, shuffle_partitions) | dict(options or {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    if cores is not None:
        java_home = find_java().home
        if java_home is not None:
            os.environ["JAVA_HOME"] = str(java_home)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # of what no setting is about
    for name in _PYTHON:
        # The variable goes before the setting, and without either workers are `python3` of PATH.
        os.environ.setdefault(name, sys.executable)
    return builder.getOrCreate()


def settings_of(cores: int | None, shuffle_partitions: int | None) -> dict[str, str]:
    """Return the settings of a session with so many local cores, or None on a cluster."""
    settings = {"spark.sql.session.timeZone": "UTC"}
    if cores is not None:
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * cores),
            "spark.ui.enabled": "false",
        }
    if shuffle_partitions is not None:
        settings["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    return settings


def _local_cores(master: str) -> int | None:
    """Return how many cores a local master has, None for a cluster; ConfigError for neither."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        if not master.startswith(_REMOTE):
            raise ConfigError(
                f"master: {master!r}, expected local[N], local[*], spark://HOST:PORT, yarn or k8s://"
            )
        return None
    named = match[1] or "1"
    cores = len(os.sched_getaffinity(0)) if named == "*" else int(named)
    if cores < 1:
        raise ConfigError(f"master: {master!r}, expected one core or more")
    return cores
