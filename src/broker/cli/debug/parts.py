"""The parts of a bundle: what is known of this machine, of a data directory, of running brokers.

No part has records, keys or values of clients. Settings that are secrets are left out by their
type, before anything is written; settings of files and of the environment are those of the broker's
table, so that a name which no broker knows is not copied, nor its value.
"""

import json
import os
import platform
import resource
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.cli.http_pages import page_of
from broker.cli.output import plain
from broker.cli.version import versions
from broker.model.address import Address
from broker.model.config import Config, find_broker_setting, value_to_text
from broker.model.errors import PolylogError
from broker.model.setting import Kind

if TYPE_CHECKING:
    from broker.client.metadata import Cluster

LOG_BYTES_MAX: Final = 1 << 20  # of the end of each log
FILES_MAX: Final = 20_000  # of a data directory that are listed
PARTITIONS_MAX: Final = 2_000  # whose state is described
_PAGES: Final = (
    "/health/live",
    "/health/ready",
    "/health/startup",
    "/health/cluster",
    "/metrics",
    "/metrics/all",
)
_OF_KERNEL: Final = (
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/proc/self/cgroup",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/memory.max",
    "/sys/kernel/mm/transparent_hugepage/enabled",
)

Part = Callable[[], bytes]


def of_machine(read: Callable[[Path, int], bytes]) -> Iterator[tuple[str, Part]]:
    """Yield the parts that need no broker.

    Args:
        read: the first bytes of a file, or the last ones if the number is negative.
    """
    yield "versions.json", lambda: as_json(versions())
    yield "limits.json", lambda: as_json(_limits())
    yield "machine.json", lambda: as_json(_machine())
    for name in _OF_KERNEL:
        if Path(name).exists():
            yield f"kernel{name}", lambda name=name: read(Path(name), LOG_BYTES_MAX)  # type: ignore[misc]


def of_config(config: Config) -> bytes:
    """Return the settings that are not defaults, and where they come from."""
    return as_json(
        {
            name: {"value": _shown(name, config), "from": origin}
            for name, origin in sorted(config.origins.items())
        }
    )


def _shown(name: str, config: Config) -> str | None:
    # The keys of a listener's own settings end with the name of the setting.
    if find_broker_setting(name).kind is Kind.PASSWORD:
        return "(left out)"
    return value_to_text(config.get(name))


def of_data_dir(folder: Path) -> bytes:
    """Return a line for each file: its size, the time of its last change, its path."""
    lines = [
        f"{each.st_size:>16} {each.st_mtime:.3f} {path}"
        for path, each in islice(_files(folder, folder), FILES_MAX)
    ]
    if len(lines) == FILES_MAX:
        lines.append("(there are more)")
    usage = os.statvfs(folder)
    disk = (
        f"disk: {usage.f_bavail * usage.f_frsize} of {usage.f_blocks * usage.f_frsize} bytes free"
    )
    inodes = f"inodes: {usage.f_favail} of {usage.f_files} free"
    return "\n".join([disk, inodes, *lines, ""]).encode()


def _files(folder: Path, root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with os.scandir(folder) as entries:
        for each in sorted(entries, key=lambda entry: entry.name):
            try:
                if each.is_dir(follow_symlinks=False):
                    yield from _files(Path(each.path), root)
                else:
                    yield Path(each.path).relative_to(root), each.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # a running broker has removed it


def of_cluster(cluster: "Cluster") -> Iterator[tuple[str, Part]]:
    """Yield what brokers tell: who they are, their settings, topics, groups, and pages."""
    from broker.client.brokers import describe, log_dirs  # noqa: PLC0415
    from broker.client.groups import list_groups  # noqa: PLC0415
    from broker.client.topics import partition_states  # noqa: PLC0415

    yield "cluster.json", lambda: as_json(describe(cluster))
    yield "partitions.json", lambda: as_json(partition_states(cluster)[:PARTITIONS_MAX])
    yield "groups.json", lambda: as_json(list_groups(cluster))
    for broker in describe(cluster).brokers:
        at = f"broker-{broker.broker_id}"
        address = broker.address
        yield f"{at}/settings.json", lambda at=at: _settings(cluster, at)  # type: ignore[misc]
        yield f"{at}/log-dirs.json", lambda to=address: as_json(log_dirs(cluster, to))  # type: ignore[misc]
        for path in _PAGES:
            yield f"{at}{path}.txt", lambda to=address, path=path: _page(cluster, to, path)  # type: ignore[misc]


def _settings(cluster: "Cluster", at: str) -> bytes:
    from broker.client.configs import DEFAULT, Kind, Resource, describe_configs  # noqa: PLC0415

    broker_id = at.removeprefix("broker-")
    found = describe_configs(cluster, Resource(Kind.BROKER, broker_id))
    return as_json(
        {
            name: {"value": "(left out)" if each.is_sensitive else each.value, "from": each.source}
            for name, each in found.items()
            if each.source != DEFAULT
        }
    )


def _page(cluster: "Cluster", address: Address, path: str) -> bytes:
    answer = page_of(cluster, address, path)
    return f"status: {answer.status}\n".encode() + answer.text


def as_json(value: Any) -> bytes:  # noqa: ANN401 - rows, and mappings of them
    """Return a document for people and programs."""
    return json.dumps(plain(value), indent=2, default=str).encode() + b"\n"


def gathered(
    parts: Iterator[tuple[str, Part]], errors: dict[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the parts that can be had; the reasons for the others go to `errors`."""
    while True:
        try:
            name, part = next(parts)
        except StopIteration:
            return
        except PolylogError as error:
            errors["cluster"] = str(error)
            return
        try:
            yield name, part()
        except (PolylogError, OSError) as error:
            errors[name] = str(error)


def _limits() -> Mapping[str, tuple[int, int]]:
    names = [each for each in dir(resource) if each.startswith("RLIMIT_")]
    return {each: resource.getrlimit(getattr(resource, each)) for each in names}


def _machine() -> Mapping[str, object]:
    return {
        "uname": list(platform.uname()),
        "cores": os.cpu_count(),
        "cores_of_this_process": len(os.sched_getaffinity(0)),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "is_root": os.geteuid() == 0,
    }
