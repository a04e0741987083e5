"""Topics in Spark, compared with Arrow batches from memory and with Spark's own Kafka source."""
