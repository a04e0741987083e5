"""The table of served Kafka APIs: `API` of each module in `handlers`, in the order of their keys.

The response of ApiVersions, the check that every advertised version has a schema, and the names in
logs and metrics come from this table.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.codec import schema
from broker.protocols.kafka import handlers
from broker.protocols.kafka.api import Api
from broker.protocols.kafka.handlers import api_versions

if TYPE_CHECKING:
    from broker.codec import bodies


def advertised() -> "list[bodies.ApiVersionsResponseApiKey]":
    """Return the list of APIs for ApiVersions."""
    return [
        {
            "api_key": api.key,
            "min_version": api.versions.start,
            "max_version": api.versions.stop - 1,
        }
        for api in APIS.values()
    ]


def _apis() -> list[Api]:
    files = sorted(Path(handlers.__path__[0]).glob("[!_]*.py"))
    if not files:
        raise RuntimeError(f"no modules of handlers in {handlers.__path__[0]}")
    modules = [import_module(f"{handlers.__name__}.{file.stem}") for file in files]
    found = [module.API for module in modules if module is not api_versions]
    return [*found, api_versions.build(advertised)]


APIS: Final[dict[int, Api]] = {api.key: api for api in sorted(_apis(), key=lambda api: api.key)}


def check() -> None:
    """Raise ValueError if an API advertises a version that has no schema."""
    for api in APIS.values():
        for message in (schema.request(api.key), schema.response(api.key)):
            for version in (api.versions.start, api.versions.stop - 1):
                if version not in message.versions:
                    raise ValueError(f"{api.name} v{version} is advertised without a schema")


check()
