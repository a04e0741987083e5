"""A network in which each broker of a cluster has an address of its own, and any path can be cut.

Each broker runs in a network namespace of its own, with a link to one bridge, on which the test and
its etcd are, too. A cut drops what one broker sends to another one, as a broken switch does: nobody
is told. Needs root, `ip` and `nft`.
"""

import itertools
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

_NUMBERS = itertools.count()
_RULES = "add table inet cuts; add chain inet cuts input { type filter hook input priority 0; }"


class BrokerNetwork:
    """The namespaces of brokers with the ids 1 to `count`."""

    def __init__(self, count: int = 3) -> None:
        """Make the network, or skip the test where that is impossible."""
        if os.geteuid() != 0:
            pytest.skip("only root may make network namespaces")
        number = (os.getpid() * 7 + next(_NUMBERS)) % (250 * 250)
        self._name = f"pl{number}"
        self._subnet = f"10.{200 + number // 250 % 50}.{number % 250}"
        self.ids = range(1, count + 1)
        self.host = f"{self._subnet}.254"  # of the test
        try:
            _run("ip", "link", "add", self._name, "type", "bridge")
            _run("ip", "address", "add", f"{self.host}/24", "dev", self._name)
            _run("ip", "link", "set", self._name, "up")
            for each in self.ids:
                self._add(each)
        except BaseException:
            self.close()
            raise

    def _add(self, broker_id: int) -> None:
        space, link = self._space(broker_id), f"{self._name}-{broker_id}"
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "link", "set", link, "master", self._name, "up")
        self._inside(broker_id, "ip", "link", "set", "lo", "up")
        address = f"{self.address(broker_id)}/24"
        self._inside(broker_id, "ip", "address", "add", address, "dev", "eth0")
        self._inside(broker_id, "ip", "link", "set", "eth0", "up")
        self._inside(broker_id, "nft", _RULES)

    def address(self, broker_id: int) -> str:
        """Return the host of a broker."""
        return f"{self._subnet}.{broker_id}"

    def inside(self, broker_id: int, command: list[str]) -> list[str]:
        """Return the command that runs another one where a broker is."""
        return ["ip", "netns", "exec", self._space(broker_id), *command]

    def cut(self, source: int, target: int) -> None:
        """Drop what one broker sends to another."""
        address = self.address(source)
        self._inside(target, "nft", f"add rule inet cuts input ip saddr {address} drop")

    def cut_both_ways(self, one: int, others: Iterable[int]) -> None:
        """Drop everything between a broker and others."""
        for each in others:
            self.cut(one, each)
            self.cut(each, one)

    def heal(self) -> None:
        """End all cuts."""
        for each in self.ids:
            self._inside(each, "nft", "flush chain inet cuts input")

    def close(self) -> None:
        """Remove the network; its brokers have ended."""
        for each in self.ids:
            subprocess.run(["ip", "netns", "delete", self._space(each)], check=False)  # noqa: S607
        subprocess.run(["ip", "link", "delete", self._name], check=False)  # noqa: S607

    def _space(self, broker_id: int) -> str:
        return f"{self._name}-{broker_id}"

    def _inside(self, broker_id: int, *command: str) -> None:
        _run(*self.inside(broker_id, list(command)))


@contextmanager
def broker_network(count: int = 3) -> Iterator[BrokerNetwork]:
    """Make a network, and remove it in the end."""
    network = BrokerNetwork(count)
    try:
        yield network
    finally:
        network.close()


def _run(*command: str) -> None:
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"{error.filename} is not installed")
    if found.returncode != 0:
        pytest.skip(f"{' '.join(command)} is not possible here: {found.stderr.strip()}")
