"""Topics as tables and streams of Spark, through PySpark: the extra `polylog[spark]`."""
