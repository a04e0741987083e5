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
from broker.model.config import Config, find_broker_setting, load, split_words, value_to_text
from broker.model.config_sources import COMMAND_LINE, is_from
from broker.model.errors import ConfigError
from broker.model.listener import ListenerConfig
from broker.model.printable import printable
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
    file: Path | None,
    data_dir: str | None,
    listen: Sequence[str] | None,
    overrides: Sequence[str],
    kafka_properties: Path | None = None,
) -> Config:
    """Return the configuration of a command line; raise ConfigError if it is invalid."""
    options = list(overrides)
    if data_dir is not None:
        options.append(f"log.dirs={data_dir}")
    if listen:
        options.append(f"listeners={','.join(listen)}")
    config = load(options, os.environ, file, kafka_properties)
    for each, option in ((file, "--config"), (kafka_properties, "--kafka-properties")):
        if each is not None and _passwords(config, str(each)):
            check_secret_file(each, option)
    return config


def check(config: Config, output: str = "table") -> int:
    """Print the resulting configuration and where it was given; change nothing."""
    if output == "json":
        from broker.model.explanation import as_json  # noqa: PLC0415 - a start needs none of it

        print(as_json(config))
        return 0
    for name, origin in sorted(config.origins.items()):
        note = "" if find_broker_setting(name).applies else "  (has no effect in this version)"
        print(printable(f"{name}={value_to_text(config.get(name))}  from {origin}{note}"))
    for name, origin in sorted(config.start.not_used.items()):
        print(printable(f"not used here: {name}  from {origin}"))
    for variable in config.start.ignored:
        print(printable(f"not a setting: environment {variable}"))
    for name, text in config.start.warnings:
        print(f"warning: {name}: {text}")
    print("configuration ok")
    return 0


def run(config: Config) -> int:
    """Run the broker until it is stopped; return the exit code."""
    _check_directory(config)
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

    _report(config)
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


def _check_directory(config: Config) -> None:
    """Refuse to begin anew in one directory while another one of log.dirs has the data."""
    others = split_words(config.text("log.dirs"))[1:]
    if not others:
        return
    from broker.segments.text_files import META_PROPERTIES  # noqa: PLC0415 - `--check` needs none

    if (config.data_dir / META_PROPERTIES).exists():
        return
    for other in others:
        if Path(other, META_PROPERTIES).exists():
            raise ConfigError(
                f"log.dirs: there is data in {other}, and none in the first directory, which has"
                " the metadata: name it first, or leave it out"
            )


def _report(config: Config) -> None:
    """Log once what of Kafka's configuration has no effect, and what may not be expected."""
    start = config.start
    log = logging.getLogger(__name__)
    if start.not_used:
        log.info("settings of Kafka not used here: names=%s", ",".join(sorted(start.not_used)))
    if start.ignored:
        log.info("variables that are no settings: names=%s", ",".join(start.ignored))
    for name, text in start.warnings:
        log.warning("%s: name=%s", text, name)


def _passwords(config: Config, place: str) -> list[str]:
    """Return the password settings that were given on the command line, or in a file."""
    return [
        name
        for name, each in config.origins.items()
        if is_from(each, place) and find_broker_setting(name).kind is Kind.PASSWORD
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
