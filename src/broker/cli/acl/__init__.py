"""`broker acl`: what principals may do, at a stopped broker or at running ones.

It has what most clients need. Kafka's own kafka-acls.sh has the rest: denials, hosts, filters.
"""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("acl", ("allow", "remove", "list"), __name__)
