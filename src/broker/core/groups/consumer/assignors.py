"""The assignors that the broker has, by the names that members ask for them with."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.core.groups.consumer import range_assignor, uniform
from broker.core.groups.consumer.targets import Assigning, Spec

ASSIGNORS: Final[Mapping[str, Callable[[Spec], Assigning]]] = {
    "uniform": uniform.assign,
    "range": range_assignor.assign,
}
