"""Topics in Spark beside what Spark can take at all, and beside Spark's own Kafka source."""
