"""The server-side assignors, by name; like those of Kafka 4.3, none looks at racks."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.core.groups.consumer import range_assignor, uniform
from broker.core.groups.consumer.targets import AssignmentSpec, AssignmentSteps

ASSIGNORS: Final[Mapping[str, Callable[[AssignmentSpec], AssignmentSteps]]] = {
    "uniform": uniform.assign,
    "range": range_assignor.assign,
}
