"""A batch read with filter pushdown, which needs PySpark 4.1."""

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from broker.pipeline.source import filters as pushed
from broker.pipeline.source.batch import BatchReader


class PushdownBatchReader(BatchReader):
    """A batch read with filter pushdown, for sessions that allow it.

    Spark refuses a reader that has pushFilters unless spark.sql.python.filterPushdown.enabled is
    true, which is not the default: hence this class and the option `pushdown`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Apply the filters that can be enforced exactly, and return the others to Spark."""
        if self._settings.key_prefix is not None:
            of_keys = [each for each in filters if getattr(each, "attribute", ()) == ("key",)]
            self._bounds, others = pushed.take(each for each in filters if each not in of_keys)
            return [*of_keys, *others]
        self._bounds, others = pushed.take(filters)
        return others
