"""`broker start`: from the command line to a running broker."""

import gc
import logging
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from broker._native.kernel import heap
from broker.cli.banner import banner
from broker.core.log_lines import LineLimit
from broker.model.address import Address
from broker.model.clock import SystemClock
from broker.model.config import Config, load, value_to_text
from broker.model.settings import BROKER_SETTINGS
from broker.server.garbage_collection import bound_collections


def configuration(
    file: Path | None, data_dir: str | None, listen: Sequence[str] | None, overrides: Sequence[str]
) -> Config:
    """The configuration that a command line asks for; ConfigError says what is wrong with it."""
    options = list(overrides)
    if data_dir is not None:
        options.append(f"log.dirs={data_dir}")
    if listen:
        options.append(f"listeners={','.join(listen)}")
    return load(options, os.environ, file)


def check(config: Config) -> int:
    """Print what was given and where, touch nothing."""
    for name, origin in sorted(config.origins.items()):
        note = "" if BROKER_SETTINGS[name].applies else "  (nothing acts on it in this version)"
        print(f"{name}={value_to_text(config.get(name))}  from {origin}{note}")
    print("configuration ok")
    return 0


def run(config: Config) -> int:
    """Run the broker until it is told to stop; the exit code."""
    # Records, keys and offsets are the owner's alone, whatever creates the file.
    os.umask(0o077)
    heap.bound_what_is_kept()
    _raise_descriptor_limit()
    logging.basicConfig(
        stream=sys.stderr,
        level=config.text("polylog.log.level").upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(LineLimit(SystemClock()))
    for name in config.origins:
        if not BROKER_SETTINGS[name].applies:
            logging.getLogger(__name__).warning("%s is set, but nothing acts on it yet", name)

    def announce(addresses: Sequence[Address], in_force: Config) -> None:
        print(banner(addresses, in_force), flush=True)
        bound_collections()
        gc.enable()

    # What a start makes is what stays: looking for garbage in it costs 16 ms and finds none.
    gc.disable()
    try:
        from broker.server import app  # noqa: PLC0415 - a wrong configuration needs none of it

        return app.run(config, announce)
    finally:
        gc.enable()


def _raise_descriptor_limit() -> None:
    """Take as many descriptors as may be had: every active partition and connection holds one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
