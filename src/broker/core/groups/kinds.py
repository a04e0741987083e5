"""The kinds of group that one coordinator partition keeps side by side."""

from typing import TypeAlias

from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.classic import ClassicGroup
from broker.core.groups.consumer.group import ConsumerGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup | AssignedGroup
