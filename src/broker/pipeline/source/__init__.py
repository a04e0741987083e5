"""Reading topics in Spark: batches and streams."""
