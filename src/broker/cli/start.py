"""`broker start`: read the configuration, check it or run a broker with it."""

import gc
import logging
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from broker._native.kernel import heap
from broker.cli.banner import banner
from broker.model.clock import SystemClock
from broker.model.config import Config, find_broker_setting, load, value_to_text
from broker.model.config_sources import COMMAND_LINE
from broker.model.listener import ListenerConfig
from broker.model.secret_file import check_secret_file
from broker.model.setting import Kind
from broker.server.garbage_collection import bound_collections
from broker.server.log_lines import LineLimit, write_lines_as

_SECRET_FILES = (
    "polylog.metadata.password.file",
    "polylog.metadata.tls.certificate.file",
    "polylog.audit.key.file",
)


def configuration(
    file: Path | None, data_dir: str | None, listen: Sequence[str] | None, overrides: Sequence[str]
) -> Config:
    """Return the configuration of a command line; raise ConfigError if it is invalid."""
    options = list(overrides)
    if data_dir is not None:
        options.append(f"log.dirs={data_dir}")
    if listen:
        options.append(f"listeners={','.join(listen)}")
    config = load(options, os.environ, file)
    if file is not None and _passwords(config, str(file)):
        check_secret_file(file, "--config")
    return config


def check(config: Config) -> int:
    """Print the settings that are not defaults and their origins; change nothing."""
    for name, origin in sorted(config.origins.items()):
        note = "" if find_broker_setting(name).applies else "  (has no effect in this version)"
        print(f"{name}={value_to_text(config.get(name))}  from {origin}{note}")
    print("configuration ok")
    return 0


def run(config: Config) -> int:
    """Run the broker until it is stopped; return the exit code."""
    # Only the owner may read the data, whatever creates a file.
    os.umask(0o077)
    heap.bound_what_is_kept()
    if _holds_secrets(config):
        _forbid_core_dumps()
    _raise_descriptor_limit()
    logging.basicConfig(stream=sys.stderr, level=config.text("polylog.log.level").upper())
    write_lines_as(config.text("polylog.log.format"))
    for handler in logging.getLogger().handlers:
        handler.addFilter(LineLimit(SystemClock()))
    for name in config.origins:
        if not find_broker_setting(name).applies:
            logging.getLogger(__name__).warning(
                "setting has no effect in this version, remove it: name=%s", name
            )

    for name in _passwords(config, COMMAND_LINE):
        logging.getLogger(__name__).warning(
            "every user of this host can read a password of the command line, give it in a file:"
            " name=%s",
            name,
        )

    if config.integer("polylog.workers") > 1:
        from broker.cli import workers  # noqa: PLC0415 - one broker needs none of it

        return workers.run(config)

    def announce(
        listeners: Sequence[ListenerConfig], in_force: Config, cluster_id: str | None
    ) -> None:
        print(banner(listeners, in_force, None, cluster_id), flush=True)
        bound_collections()
        gc.enable()

    # Objects of the start are not garbage: collections during it would cost 16 ms for nothing.
    gc.disable()
    try:
        from broker.server import app  # noqa: PLC0415 - not needed for an invalid configuration

        return app.run(config, announce)
    finally:
        gc.enable()


def _passwords(config: Config, origin: str) -> list[str]:
    """Return the password settings that were given in one place."""
    return [
        name
        for name, each in config.origins.items()
        if each == origin and find_broker_setting(name).kind is Kind.PASSWORD
    ]


def _holds_secrets(config: Config) -> bool:
    """Whether the process has keys or passwords in its memory."""
    return (
        any(each.security.has_tls or each.security.has_sasl for each in config.listeners)
        or any(find_broker_setting(name).kind is Kind.PASSWORD for name in config.origins)
        or any(map(config.is_given, _SECRET_FILES))
    )


def _forbid_core_dumps() -> None:
    """Leave no core file, whose reader would find keys and passwords in it.

    A limit of 1 byte also keeps the kernel from piping the dump to a program such as systemd's,
    which it does with a limit of 0; see core(5).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = min(1, hard) if hard != resource.RLIM_INFINITY else 1
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def _raise_descriptor_limit() -> None:
    """Raise the descriptor limit to its maximum: every partition and connection needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
