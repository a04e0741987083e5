"""The process that the user starts: it forks the workers, restarts them and ends them.

    signals, ends of workers, bytes of workers that are ready ──> Policy ──> fork, close, kill

It has one thread and no event loop, so that a fork copies nothing that runs. It holds the lock of
the data directory and keeps the ports (ports.py). A worker inherits the lock: the directory is free
when the last of its processes has ended, also if the supervisor was killed.
"""

import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from broker.model.address import Address
from broker.model.clock import monotonic
from broker.model.config import Config
from broker.model.errors import ConfigError
from broker.server.service_manager import ALIVE, READY, STOPPING, of_environment
from broker.server.workers import policy
from broker.server.workers.policy import Action, Announce, Exit, Kill, Policy, Start, Stop
from broker.server.workers.ports import Ports, plan
from broker.server.workers.worker import Worker
from broker.storage.log_dir import LogDir
from broker.storage.more_directories import open_more

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SIGNAL_NAMES = {int(each): each.name for each in signal.Signals}  # real-time ones have none
_log = logging.getLogger(__name__)

# Runs a worker in its own process and returns its exit code.
RunWorker: TypeAlias = Callable[[Config, LogDir, Worker], int]
# Prepares the data directory in a process of its own; returns its exit code.
Prepare: TypeAlias = Callable[[LogDir, Sequence[int]], int]
# Prints the shared addresses, and the own address of each worker by its id.
Ready: TypeAlias = Callable[[Sequence[Address], dict[int, Address]], None]


class Work(NamedTuple):
    """What the supervisor calls, two of them in processes of their own."""

    prepare: Prepare
    run_worker: RunWorker
    ready: Ready


def run(config: Config, work: Work) -> int:
    """Run workers until SIGTERM, SIGINT or SIGHUP; return the exit code.

    Raises ConfigError or DataDirError when they cannot start.
    """
    count = config.integer("polylog.workers")
    if config.metadata_address is not None:
        raise ConfigError(
            f"polylog.workers={count} needs polylog.metadata.store=sqlite: with etcd, start each"
            " broker with a --data-dir and a node.id of its own"
        )
    planned = plan(config, count)
    first = config.integer("node.id")
    node_ids = range(first, first + count)
    log_dir = LogDir(config.data_dir, first)
    try:
        open_more(log_dir, config.more_dirs)
        ports = Ports(planned)
        try:
            log_dir.write_holder(ports.addresses.shared)
            return _Supervisor(config, log_dir, ports, node_ids, work).run()
        finally:
            ports.close()
    finally:
        log_dir.close()


class _Process(NamedTuple):
    """A worker that runs."""

    pid: int
    ready_fd: int  # readable when it is ready; at its end when it has ended
    stop_fd: int  # closed to stop it


class _Supervisor:
    """One run."""

    def __init__(
        self, config: Config, log_dir: LogDir, ports: Ports, node_ids: range, work: Work
    ) -> None:
        self._config = config
        self._log_dir = log_dir
        self._ports = ports
        self._node_ids = node_ids
        self._work = work
        self._policy = Policy(node_ids)
        self._processes: dict[int, _Process] = {}  # by place
        self._exit_code: int | None = None
        self._manager = of_environment()

    def run(self) -> int:
        waking, woken = socket.socketpair()
        with waking, woken:
            waking.setblocking(False)
            woken.setblocking(False)
            before = {number: signal.getsignal(number) for number in (*_STOPPING, signal.SIGCHLD)}
            for number, handler in before.items():
                if handler is not signal.SIG_IGN or number is signal.SIGCHLD:
                    signal.signal(number, _ignore)
            signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
            try:
                return self._supervise(woken)
            finally:
                signal.set_wakeup_fd(-1)
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _supervise(self, woken: socket.socket) -> int:
        prepared = self._wait_for(_fork(self._prepare))
        if prepared != 0:
            return prepared if prepared > 0 else policy.EXIT_FAILED
        self._do(self._policy.begin(monotonic()))
        while self._exit_code is None:
            self._wait(woken)
        if self._policy.reason:
            _log.error("all workers are stopped: %s", self._policy.reason)
        return self._exit_code

    def _wait(self, woken: socket.socket) -> None:
        """Wait for something to happen, and act on it."""
        poll = select.poll()
        poll.register(woken.fileno(), select.POLLIN)
        waiting = {each.ready_fd: place for place, each in self._processes.items()}
        for fd in waiting:
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        due = self._policy.due
        if self._manager is not None and self._manager.watchdog_seconds is not None:
            self._manager.tell(ALIVE)
            alive = monotonic() + self._manager.watchdog_seconds / 2
            due = alive if due is None else min(due, alive)
        events = poll.poll(None if due is None else max(0.0, due - monotonic()) * 1000)
        for fd, _ in events:
            if fd != woken.fileno():
                self._ready(waiting[fd])
        with suppress(BlockingIOError):
            for number in woken.recv(64):
                if number != signal.SIGCHLD:
                    _log.info("stopping all workers: signal=%s", signal.Signals(number).name)
                    self._tell(STOPPING)
                    self._do(self._policy.stop(monotonic()))
        self._reap()
        self._do(self._policy.tick(monotonic()))

    def _ready(self, place: int) -> None:
        process = self._processes[place]
        is_ready = bool(os.read(process.ready_fd, 1))
        os.close(process.ready_fd)
        self._processes[place] = process._replace(ready_fd=-1)
        if is_ready:
            self._do(self._policy.ready(place))

    def _reap(self) -> None:
        for place in list(self._processes):
            pid, status = os.waitpid(self._processes[place].pid, os.WNOHANG)
            if pid == 0:
                continue
            process = self._processes.pop(place)  # the end of another may have closed its stop_fd
            for fd in (process.ready_fd, process.stop_fd):
                if fd >= 0:
                    os.close(fd)
            exit_code = os.waitstatus_to_exitcode(status)
            _log_end(self._node_ids[place], process.pid, exit_code)
            self._do(self._policy.ended(place, exit_code, monotonic()))

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Start(place):
                    self._start(place)
                case Stop(place):
                    process = self._processes[place]
                    os.close(process.stop_fd)
                    self._processes[place] = process._replace(stop_fd=-1)
                case Kill(place):
                    _log.warning("worker killed: worker=%d", self._node_ids[place])
                    os.kill(self._processes[place].pid, signal.SIGKILL)
                case Announce():
                    addresses = self._ports.addresses
                    own = dict(zip(self._node_ids, addresses.own, strict=True))
                    self._work.ready(addresses.shared, own)
                    self._tell(READY)
                case Exit(code):
                    self._exit_code = code

    def _tell(self, line: str) -> None:
        if self._manager is not None:
            self._manager.tell(line)

    def _start(self, place: int) -> None:
        ready_fd, child_ready_fd = os.pipe()
        child_stop_fd, stop_fd = os.pipe()
        addresses = self._ports.addresses
        worker = Worker(
            self._node_ids,
            addresses.shared,
            addresses.own[place],
            addresses.advertised[place],
            child_ready_fd,
            child_stop_fd,
        )

        def run() -> int:
            os.close(ready_fd)
            os.close(stop_fd)
            return self._run_worker(place, worker)

        pid = _fork(run)
        os.close(child_ready_fd)
        os.close(child_stop_fd)
        self._processes[place] = _Process(pid, ready_fd, stop_fd)

    def _run_worker(self, place: int, worker: Worker) -> int:
        """Run a worker, in its own process."""
        for process in self._processes.values():  # or they would not notice the supervisor's end
            for fd in (process.ready_fd, process.stop_fd):
                if fd >= 0:
                    os.close(fd)
        self._ports.close()
        node_id = self._node_ids[place]
        log_dir = self._log_dir.of_worker(node_id)
        return self._work.run_worker(self._config.of_node(node_id), log_dir, worker)

    def _prepare(self) -> int:
        return self._work.prepare(self._log_dir, self._node_ids)

    @staticmethod
    def _wait_for(pid: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the number of the signal is in the wake-up socket."""


def _fork(work: Callable[[], int]) -> int:
    """Run work in a new process; return its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    exit_code = policy.EXIT_FAILED
    try:
        signal.set_wakeup_fd(-1)
        # Ctrl-C and the end of a terminal reach the whole process group; the supervisor acts.
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        exit_code = work()
    except BaseException:  # noqa: BLE001 (nothing may return into the supervisor's stack)
        _log.exception("worker failed")
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_code)


def _log_end(node_id: int, pid: int, exit_code: int) -> None:
    if exit_code < 0:
        ended_by = f"signal {_SIGNAL_NAMES.get(-exit_code, -exit_code)}"
    else:
        ended_by = f"exit code {exit_code}"
    level = logging.INFO if exit_code == 0 else logging.WARNING
    _log.log(level, "worker ended: worker=%d pid=%d by=%s", node_id, pid, ended_by)
