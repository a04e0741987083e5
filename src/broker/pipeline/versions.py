"""Which versions of PySpark can do what: reading and writing batches is possible since 4.0.

Python sources came with 4.0, filters and Arrow rows for the sinks of streams with 4.1, limits of a
stream's triggers with 4.2. What a version lacks is imported only by what needs it.
"""

import re

import pyspark

from broker.model.errors import Unsupported


def needs(what: str, version: tuple[int, int]) -> None:
    """Refuse what the PySpark that is installed cannot do.

    Raises:
        Unsupported: it is older.
    """
    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    if found and (int(found[1]), int(found[2])) < version:
        raise Unsupported(
            f"{what} needs PySpark {version[0]}.{version[1]} or later, this is"
            f" {pyspark.__version__}; batches are read and written with 4.0"
        )
