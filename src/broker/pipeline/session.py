"""Creates a Spark session with settings for the pipelines.

    from broker.pipeline import session
    spark = session()                     # local[*]; or session("spark://host:7077")

An existing active session is returned without a change of its settings.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.codec.packages import import_optional
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
    """Return the active Spark session, or create one.

    A new session uses this Python for its workers (unless PYSPARK_PYTHON names another) and UTC as
    time zone. A local session also gets a working Java (see find_java), two shuffle partitions per
    core, loopback addresses only, and no web UI.

    Args:
        master: where Spark runs, in its own notation: local[N], local[*], spark://HOST:PORT, ...
        app_name: the name of the application.
        shuffle_partitions: the number of shuffle partitions; a stream keeps its first number.
        options: Spark's settings by name; they take precedence over those above.

    Raises:
        ConfigError: an invalid master, or fewer than 1 partitions.
        Unsupported: pyspark is not installed, or there is no Java 17.
    """
    cores = _local_cores(master)
    if shuffle_partitions is not None and shuffle_partitions < 1:
        raise ConfigError(f"shuffle_partitions: {shuffle_partitions}, expected 1 or more")
    spark_session: type[SparkSession] = import_optional(
        "pyspark.sql", "a Spark session"
    ).SparkSession
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
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # for addresses that no setting covers
    for name in _PYTHON:
        # The variable overrides the setting; without either, workers run `python3` of PATH.
        os.environ.setdefault(name, sys.executable)
    return builder.getOrCreate()


def settings_of(cores: int | None, shuffle_partitions: int | None) -> dict[str, str]:
    """Return the settings of a session with this number of local cores; None: on a cluster."""
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
    """Return the cores of a local master, None for a cluster; raise ConfigError for neither."""
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
