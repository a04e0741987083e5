"""`broker generate systemd`: the unit of a broker as a service of the machine."""

import sys
from pathlib import Path
from typing import Final, NamedTuple

import click

from broker.cli.frame import Session, verb

_UNIT: Final = """\
[Unit]
Description=Polylog, a durable log for Kafka clients
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart={program} start --data-dir ${{STATE_DIRECTORY}} --listen {listen}
# Optional: BROKER_NUM_PARTITIONS=3 and other settings, a line each.
EnvironmentFile=-/etc/polylog/environment
Restart=on-failure
RestartSec=2
# 2: the configuration is wrong. 73: the data directory cannot be used. A restart mends neither.
RestartPreventExitStatus=2 73
# Logs of a large broker are recovered after a crash; the broker asks for more time meanwhile.
TimeoutStartSec=90
TimeoutStopSec=90
WatchdogSec=30

DynamicUser=yes
StateDirectory=polylog
StateDirectoryMode=0700
UMask=0077
LimitNOFILE=1048576

CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
DevicePolicy=closed
LockPersonality=yes
MemoryDenyWriteExecute=yes
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
# The limit of the memory of requests comes from /proc/meminfo, which is not in the subset `pid`.
ProcSubset=all
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome={home}
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""
_HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))


class Unit(NamedTuple):
    """The file.

    Attributes:
        file: where systemd looks for it.
        text: its text.
    """

    file: str
    text: str


def unit(program: Path, listen: str) -> str:
    """Return the unit of a program, which may be in somebody's home directory."""
    is_at_home = any(program.is_relative_to(each) for each in _HOMES)
    return _UNIT.format(program=program, listen=listen, home="read-only" if is_at_home else "yes")


@verb(
    Unit,
    is_single=True,
    is_local=True,
    examples=(
        "broker generate systemd | sudo tee /etc/systemd/system/polylog.service",
        "broker generate systemd --program /opt/polylog/bin/broker --listen 10.0.0.5:9092",
    ),
)
@click.option(
    "--program",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="The command `broker` (default: the one that runs).",
)
@click.option(
    "--listen",
    default="localhost:9092",
    metavar="HOST:PORT",
    help="Address of the broker (default: localhost:9092).",
)
def command(session: Session, program: Path | None, listen: str) -> None:
    """Print a unit for systemd, which restarts a broker that hangs, in a sandbox."""
    found = program or Path(sys.executable).absolute().with_name("broker")
    session.print_text(Unit("/etc/systemd/system/polylog.service", unit(found, listen)), "text")
