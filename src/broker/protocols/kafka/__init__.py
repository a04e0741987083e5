"""Kafka's protocol: one module per API in `handlers`, the table of APIs in `apis`."""

from broker.protocols.kafka.dispatch import Kafka

PROTOCOL = Kafka
