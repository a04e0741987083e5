"""The imports of a start, whose cost is limited by the 0.15 s to the first answer."""

import subprocess
import sys
from pathlib import Path

# The standard library modules that are worth their milliseconds, and what they import. (pathlib
# imports urllib.parse itself before Python 3.13, which does so for a path that becomes a URI.)
ENOUGH = (
    "import argparse, asyncio, bisect, faulthandler, fcntl, hashlib, hmac, json, pathlib, resource,"
    " sqlite3, urllib.parse, uvloop, zlib"
)
START = """
import os, signal, sys
from broker.cli import main, start

def announce(*_):
    print(*sys.modules)
    os.kill(os.getpid(), signal.SIGTERM)
    return ""

start.banner = announce
sys.exit(main(["start", "--data-dir", sys.argv[1], "--listen", "127.0.0.1:0"]))
"""
OUR_OWN = ("broker", "cython_runtime", "_cython_")
# A standalone broker has no other brokers: 0.4 MB and 6 ms.
OF_A_CLUSTER = {
    "broker._native.wire.relay",
    "broker.core.cluster.placement",
    "broker.core.cluster.topics",
    "broker.core.cluster.transfer",
    "broker.core.clustered_view",
    "broker.core.links",
    "broker.core.peers",
    "broker.core.topics.cluster_placing",
    "broker.core.transactions.other_brokers",
    "broker.core.transactions.remote_admission",
    "broker.core.transactions.remote_markers",
    "broker.protocols.cursus.relays",
    "broker.server.cluster.cluster",
    "broker.server.workers.worker",
    "broker.storage.checkpoints.closed_log",
    "broker.storage.checkpoints.shared_offsets",
    "broker.storage.metadata.sqlite.process_locks",
    "broker.storage.recovery.shared_folders",
}
# Easily imported by accident, and slow; an exception for a Python that needs one goes here.
NEVER = {
    "broker.codec.bodies",  # types for mypy only
    *OF_A_CLUSTER,
    "click",
    "cramjam",
    "numpy",
    "platform",
    "pyarrow",
    "re2",
    "rich",
    "shutil",
    "typer",
    "uuid",
}


def modules(program: str, *arguments: str) -> set[str]:
    """Return the modules that are loaded when the program has printed them."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
    )
    return set(ended.stdout.split())


def test_a_start_imports_only_the_broker_uvloop_and_a_few_named_modules(
    tmp_path: Path,
) -> None:
    enough = modules(f"{ENOUGH}\nimport sys\nprint(*sys.modules)")

    more = modules(START, str(tmp_path / "data")) - enough

    assert {name for name in more if not name.startswith(OUR_OWN)} == set()
    assert not NEVER & (more | enough)


def test_the_codec_and_the_segments_import_nothing_heavy_either() -> None:
    imported = modules("import broker.codec, broker.segments, sys\nprint(*sys.modules)")

    assert "broker.segments" in imported
    assert {"numpy", "pyarrow", "cramjam"} & imported == set()
