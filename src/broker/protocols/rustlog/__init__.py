"""RustLog's protocol, JSON and binary: what both mean stands in `handlers`, its words in README."""

from broker.protocols.rustlog.dispatch import RustLog

PROTOCOL = RustLog()
