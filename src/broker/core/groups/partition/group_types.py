"""The types of group that one coordinator partition may hold."""

from typing import TypeAlias

from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.consumer.group import ConsumerGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup | AssignedGroup
