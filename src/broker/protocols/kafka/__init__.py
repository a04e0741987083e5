"""Kafka's protocol: one module per API in `handlers`, the table of APIs in `apis`."""
