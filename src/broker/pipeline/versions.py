"""The versions of PySpark that features need; reading and writing batches needs 4.0.

Python sources were added in 4.0, filters and Arrow rows for the sinks of streams in 4.1, limits of
a stream's triggers in 4.2. Classes that older versions lack are imported only by the features that
need them.
"""

import re

import pyspark

from broker.model.errors import Unsupported


def require_pyspark(feature: str, version: tuple[int, int]) -> None:
    """Raise an error if the installed PySpark is older than a version.

    Raises:
        Unsupported: it is older.
    """
    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    if found and (int(found[1]), int(found[2])) < version:
        raise Unsupported(
            f"{feature} needs PySpark {version[0]}.{version[1]} or later, this is"
            f" {pyspark.__version__}; batches are read and written with 4.0"
        )
