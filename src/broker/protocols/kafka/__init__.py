"""Kafka's protocol: one small file per API in `handlers`, one table of them in `apis`."""

from broker.protocols.kafka.dispatch import Kafka

PROTOCOL = Kafka()
