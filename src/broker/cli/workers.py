"""`broker start --workers N`: a supervisor, and N brokers in processes of their own."""

import gc
import sys
from collections.abc import Callable, Sequence

from broker.cli.banner import banner
from broker.model.address import Address
from broker.model.config import Config
from broker.model.errors import PolylogError
from broker.model.listener import ListenerConfig
from broker.server.garbage_collection import bound_collections
from broker.server.log_lines import write_lines_as
from broker.server.workers import supervisor
from broker.server.workers.supervisor import Work
from broker.server.workers.worker import Worker
from broker.storage.log_dir import LogDir


def run(config: Config) -> int:
    """Run workers until they are stopped; return the exit code. Raises as `supervisor.run`."""
    write_lines_as(config.text("polylog.log.format"), "supervisor")

    def ready(addresses: Sequence[Address], workers: dict[int, Address]) -> None:
        configured = zip(config.listeners, addresses, strict=True)
        listeners = [each._replace(address=address) for each, address in configured]
        print(banner(listeners, config, workers), flush=True)

    return supervisor.run(config, Work(_prepare, _run_worker, ready))


def _prepare(log_dir: LogDir, node_ids: Sequence[int]) -> int:
    from broker.server.workers.layout import share_directory  # noqa: PLC0415 - in its own process

    return _reported(lambda: share_directory(log_dir.path, node_ids))


def _run_worker(config: Config, log_dir: LogDir, worker: Worker) -> int:
    write_lines_as(config.text("polylog.log.format"), f"worker={config.integer('node.id')}")

    def announce(_listeners: Sequence[ListenerConfig], _config: Config, _id: str | None) -> None:
        bound_collections()
        gc.enable()

    # Objects of the start are not garbage: collections during it would cost 16 ms for nothing.
    gc.disable()
    from broker.server import app  # noqa: PLC0415 - the supervisor imports none of it

    return _reported(lambda: app.run_worker(config, log_dir, worker, announce))


def _reported(work: Callable[[], int]) -> int:
    """Run work in a process of its own, and print an error as the command does."""
    try:
        return work()
    except PolylogError as error:
        from broker.cli.exit_codes import start_exit_code_of  # noqa: PLC0415 - after a failure

        print(f"broker: {error}", file=sys.stderr)
        return start_exit_code_of(error)
