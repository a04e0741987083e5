"""Directories that are lost, emptied, exchanged and brought back, with crashes at any write.

A broker with up to three directories has all of the partitions of a topic, and other brokers have
them, too. Between two of its starts somebody changes what there is. Whenever the broker registers
as one that has had everything since a revision, it has all records of each partition whose state
has named it since then, unless the directory that has them is missing.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.model.errors import DataDirError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint, intact
from broker.storage.checkpoints.intact import NO_IMPORT, Intact
from broker.storage.log_dir import LogDir
from broker.storage.more_directories import KNOWN, known_directories, open_more
from tests.support.run_seed import seeds_of_run

HISTORIES = 60
STARTS = 25
OWNERS = {f"t-{number}": bytes([number + 1]) * 16 for number in range(4)}
RECORDS = "records"


class CrashError(Exception):
    """The process ends here."""


class History:
    """A broker, its directories, and whoever changes them.

    Attributes:
        steps: what has happened, for the message of a failure.
        writes_left: until the process ends, None: it goes on.
    """

    def __init__(self, path: Path, random: Random) -> None:
        self._random = random
        self._path = path
        self._paths = [path / name for name in "abc"]
        self._away: dict[Path, Path] = {}
        self._order = self._paths[:1]
        self._revision = 10
        self._registered = 0  # since when the last registration was intact
        self._truth = dict.fromkeys(OWNERS, 0)  # what the other brokers have
        self._named: dict[str, int] = {}  # revisions as of which states name this broker
        self.steps: list[str] = []
        self.writes_left: int | None = None

    # ---- what happens while the broker is stopped ------------------------------------------------

    def change(self) -> None:
        """Do something to the directories, or nothing."""
        if self._random.random() < 0.4:
            return
        path, other = self._random.choices(self._paths, k=2)
        changes: list[Callable[[Path, Path], None]] = [self._empty, self._lose, self._exchange]
        for often in (self._name, self._forget, self._bring_back):
            changes += [often, often]
        self._random.choice(changes)(path, other)

    def _name(self, *_: Path) -> None:
        self._order = self._random.sample(self._paths, self._random.randint(1, 3))
        self.steps.append(f"log.dirs={[each.name for each in self._order]}")

    def _forget(self, *_: Path) -> None:
        """Give up a directory that is lost for ever, as docs/operations.md says; or not lost."""
        known = text_files.read_properties(self._order[0] / KNOWN)
        if known:
            self.steps.append(f"forgotten: {known.pop(self._random.choice(sorted(known)))}")
            checkpoint.write_properties(self._order[0] / KNOWN, known)

    def _empty(self, path: Path, _: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        if self._random.random() < 0.5:
            path.mkdir()
        self.steps.append(f"{path.name} is emptied")

    def _lose(self, path: Path, _: Path) -> None:
        if path.exists() and path not in self._away:
            self._away[path] = path.rename(f"{path}-away")
            path.mkdir()
            self.steps.append(f"{path.name} is not mounted")

    def _bring_back(self, *_: Path) -> None:
        if self._away:
            path = self._random.choice(sorted(self._away))
            shutil.rmtree(path, ignore_errors=True)
            self._away.pop(path).rename(path)
            self.steps.append(f"{path.name} is mounted")

    def _exchange(self, path: Path, other: Path) -> None:
        if path != other and path.exists() and other.exists():
            path.rename(self._path / "between")
            other.rename(path)
            (self._path / "between").rename(other)
            self.steps.append(f"{path.name} and {other.name} are exchanged")

    # ---- a run of the broker ---------------------------------------------------------------------

    def run(self) -> None:
        """Start the broker, let it copy and write, and kill it."""
        may_crash = self._random.random() < 0.25
        self.writes_left = self._random.randint(0, 8) if may_crash else None
        home = None
        try:
            home = LogDir(self._order[0], 1)
            open_more(home, self._order[1:], is_standalone=False)
            home.join_cluster("the cluster")
            found = Intact(home.path, NO_IMPORT, self._revision, known_directories(home))
            self._serve(self._opened(home), found)
        except (DataDirError, CrashError) as end:
            self.steps.append(f"ended: {end!r}")
        finally:
            self.writes_left = None
            if home is not None:
                home.close()

    def _opened(self, home: LogDir) -> dict[str, Path | None]:
        """Return the folders of the partitions, made if they are not there; None: missing."""
        folders: dict[str, Path | None] = {}
        for name, owner in OWNERS.items():
            folder = home.directories.folder(name, owner)
            is_missing = folder.parent in home.directories.missing
            folders[name] = None if is_missing else folder
            if not (is_missing or folder.exists()):
                self._write(name, folder, 0)
        return folders

    def _write(self, name: str, folder: Path, records: int) -> None:
        folder.mkdir(exist_ok=True)
        checkpoint.write_partition_metadata(folder, OWNERS[name])
        (folder / RECORDS).write_text(str(records))

    def _serve(self, folders: dict[str, Path | None], found: Intact) -> None:
        if self._random.random() < 0.15:  # the recovery finds it
            self._damage(folders, found)
        self._register(folders, found)
        for _ in range(self._random.randint(0, 3)):
            if self._random.random() < 0.2:
                self._damage(folders, found)
                self._register(folders, found)
            for name, folder in folders.items():
                self._truth[name] += 1
                if folder is not None:
                    self._write(name, folder, self._truth[name])

    def _damage(self, folders: dict[str, Path | None], found: Intact) -> None:
        there = [(name, folder) for name, folder in folders.items() if folder is not None]
        for name, folder in self._random.sample(there, k=min(1, len(there))):
            self.steps.append(f"{name} is damaged")
            found.lost()
            self._write(name, folder, 0)

    def _register(self, folders: dict[str, Path | None], found: Intact) -> None:
        losses = found.losses
        self._revision += 1
        is_put_back = found.since < self._registered  # core/cluster/membership.py
        since = self._registered = (0 if is_put_back else found.since) or self._revision
        self.steps.append(f"registered with {found.since} as intact since {since}")
        for name, folder in folders.items():
            if folder is not None and since <= self._named.get(name, 0):
                assert (folder / RECORDS).read_text() == str(self._truth[name]), self.steps
        if self._random.random() < 0.8:
            found.registered(since, losses)
        for name, folder in folders.items():  # those that did not count have copied everything
            self._named.pop(name, None)
            if folder is not None:
                self._revision += 1
                self._named[name] = self._revision
                self._write(name, folder, self._truth[name])


@pytest.fixture
def crash_at_writes(monkeypatch: pytest.MonkeyPatch) -> list[History]:
    """Let the writes of properties end the process of the history in the list."""
    histories: list[History] = []
    for module, name in ((checkpoint, "write_properties"), (intact, "reset")):
        write = getattr(module, name)

        def counted(*arguments: object, write: object = write) -> None:
            left = histories[-1].writes_left
            if left == 0:
                raise CrashError
            histories[-1].writes_left = None if left is None else left - 1
            assert callable(write)
            write(*arguments)

        monkeypatch.setattr(module, name, counted)
    return histories


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: thousands of writes are synced."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    yield folder
    shutil.rmtree(folder)


def test_a_broker_has_what_it_registers_as_having(
    memory: Path, pytestconfig: pytest.Config, crash_at_writes: list[History]
) -> None:
    first = seeds_of_run(pytestconfig, "directory_histories")
    for seed in range(first, first + HISTORIES):
        path = memory / str(seed)
        path.mkdir()
        history = History(path, Random(seed))
        crash_at_writes[:] = [history]
        for _ in range(STARTS):
            history.change()
            history.run()
        shutil.rmtree(path)
