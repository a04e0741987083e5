"""Bytes to values and back: every Kafka message by its table."""
