"""A disk that loses writes: every state that a crash may leave after recorded operations.

Each file and each folder has its durable state and the changes since its last sync. The process
reads all of it; a power cut leaves any of this:

    a file's bytes   each 512 B sector as any of its versions since the last sync, alone or as part
                     of a 4 KiB page; pages arrive in any order
    a file's size    any of its sizes since then, whatever bytes have arrived: the others are zeros
    a truncation     frees blocks: later writes there are not found while the file still has its
                     old size, nor the bytes before it once it has the new one
    a name           created, removed or replaced, or not, independently of others; a rename is one
                     change of both names. Changes of one name stay in order.

    fdatasync, fsync of a file      all of its bytes and its size, not its name
    fsync of a folder               its names
    syncfs                          everything
    a sync that takes a while       what existed when it began, once it has ended
    a commit of SQLite              the whole file, atomically: what SQLite guarantees

These are the guarantees of POSIX and of ext4 with data=ordered; where ext4 promises more (all
changes of names in one order), the disk here does not. A killed process leaves everything as it
was last read. Source: ALICE (OSDI 2014), section 3; ext4's documentation of `data=ordered`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

SECTOR = 512
PAGE = 4096

# op, absolute path, position, size, bytes, result, as in `file_ops.recorded`; additional operations
# are `commit`, `begin_sync` and `end_sync`, whose position is the sync's number.
Operation: TypeAlias = tuple[str, str, int, int, bytes, int]
# Bytes by path below the root; None: a folder.
State: TypeAlias = dict[str, bytes | None]


class Choices(Protocol):
    """Chooses what the crash leaves."""

    is_torn: bool  # sectors arrive one by one, not pages

    def version(self, first: int, last: int) -> int:
        """Return which of these versions is on the disk."""


class File:
    """Bytes, in all versions that the disk may have."""

    def __init__(self, content: bytes = b"") -> None:
        self.versions = [content]  # the first is on the disk, the last is what is read
        self._cuts: list[tuple[int, int]] = []  # the version made by a truncation, and its size
        self._dirty: set[int] = set()  # sectors
        self._forgotten = 0  # versions before the first

    def write(self, position: int, data: bytes) -> None:
        content = self.versions[-1].ljust(position, b"\0")
        self.versions.append(content[:position] + data + content[position + len(data) :])
        self._touch(position, position + len(data))

    def grow(self, size: int) -> None:
        """Grow to at least that size."""
        if size > len(self.versions[-1]):
            self.versions.append(self.versions[-1].ljust(size, b"\0"))

    def resize(self, size: int) -> None:
        if size < len(self.versions[-1]):
            self._touch(size, max(map(len, self.versions)))
            self._cuts.append((len(self.versions), size))
            self.versions.append(self.versions[-1][:size])
        self.grow(size)

    def replace(self, content: bytes) -> None:
        """Have exactly these bytes on the disk."""
        self.versions.append(content)
        self.sync()

    @property
    def moment(self) -> int:
        """Return what a sync that begins now makes durable."""
        return self._forgotten + len(self.versions) - 1

    def sync(self) -> None:
        self.sync_up_to(self.moment)

    def sync_up_to(self, moment: int) -> None:
        """Have at least what existed then; a later sync may have covered more meanwhile."""
        count = moment - self._forgotten
        if count <= 0:
            return
        del self.versions[:count]
        self._forgotten = moment
        self._cuts = [(made - count, size) for made, size in self._cuts if made > count]
        if not self.is_dirty:
            self._dirty.clear()

    @property
    def is_dirty(self) -> bool:
        return len(self.versions) > 1

    def after_crash(self, choices: Choices) -> bytes:
        if not self.is_dirty:
            return self.versions[0]
        chosen = choices.version(0, len(self.versions) - 1)
        size = len(self.versions[chosen])
        content = bytearray(self.versions[0][:size].ljust(size, b"\0"))
        page, page_version = -1, 0
        for sector in sorted(self._dirty):
            start, end = sector * SECTOR, min((sector + 1) * SECTOR, size)
            if start >= size:
                break
            first, last = self._possible(chosen, start, start + SECTOR)
            if choices.is_torn:
                version = choices.version(first, last)
            else:
                if start // PAGE != page:
                    page, page_version = start // PAGE, choices.version(first, last)
                version = min(max(page_version, first), last)
            content[start:end] = self.versions[version][start:end].ljust(end - start, b"\0")
        return bytes(content)

    def _possible(self, chosen: int, start: int, end: int) -> tuple[int, int]:
        """Return the versions that a sector may have in a file of the chosen size."""
        first, last = 0, len(self.versions) - 1
        for made, size in self._cuts:
            if chosen >= made and end > size:
                first = max(first, made)
            elif chosen < made and start // PAGE * PAGE >= size:
                last = min(last, made - 1)
        return first, max(first, last)

    def _touch(self, start: int, end: int) -> None:
        self._dirty.update(range(start // SECTOR, (end + SECTOR - 1) // SECTOR))


class Folder:
    """Names, and the changes to them that the disk may or may not have."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}  # as the process reads them
        self._on_disk: dict[str, Node] = {}
        self._changes: list[dict[str, Node | None]] = []
        self._forgotten = 0  # changes before the first

    def change(self, names: dict[str, "Node | None"]) -> None:
        self._changes.append(names)
        _apply(self.names, names)

    @property
    def moment(self) -> int:
        """Return what a sync that begins now makes durable."""
        return self._forgotten + len(self._changes)

    def sync(self) -> None:
        self.sync_up_to(self.moment)

    def sync_up_to(self, moment: int) -> None:
        """Have at least the changes made by then."""
        count = max(0, moment - self._forgotten)
        for change in self._changes[:count]:
            _apply(self._on_disk, change)
        del self._changes[:count]
        self._forgotten += count

    @property
    def is_dirty(self) -> bool:
        return bool(self._changes)

    def after_crash(self, choices: Choices) -> dict[str, "Node"]:
        left = dict(self._on_disk)
        for change in self._changes:
            if choices.version(0, 1):
                _apply(left, change)
        return left


Node: TypeAlias = File | Folder


def _apply(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """One folder and everything below it, under the operations of one process."""

    def __init__(self, root: Path, state: State | None = None) -> None:
        """Begin with a state that is entirely on the disk."""
        self._root = os.path.realpath(root)
        self.top = Folder()
        self._syncing: dict[
            int, tuple[Node, int]
        ] = {}  # by number: the files, and the state to cover
        for path, content in sorted((state or {}).items()):
            parent, name = self._parent(path)
            parent.change({name: Folder() if content is None else File(content)})
        self._sync_everything()

    def move(self, root: Path) -> None:
        """Be found at another path by the next process."""
        self._root = os.path.realpath(root)

    def apply(self, operation: Operation) -> None:
        """Apply an operation; reads, failures and other paths change nothing."""
        op, path, position, size, data, result = operation
        if result < 0 or not path.startswith(self._root) or path.endswith(" (deleted)"):
            return
        path = path[len(self._root) + 1 :]
        if op == "write":
            self._file(path).write(position, data)
        elif op == "allocate":
            self._file(path).grow(position + size)
        elif op == "truncate":
            self._file(path).resize(size)
        elif op in {"sync_data", "sync", "sync_folder"}:
            self._node(path).sync()
        elif op == "begin_sync":
            node = self._node(path)
            self._syncing[position] = node, node.moment
        elif op == "end_sync":
            node, moment = self._syncing.pop(position)
            node.sync_up_to(moment)
        elif op == "commit":
            self._file(path).replace(data)
        elif op == "sync_filesystem":
            self._sync_everything()
        else:
            self._change_names(op, path, position, os.fsdecode(data))

    def _change_names(self, op: str, path: str, flags: int, target: str) -> None:
        if op == "open":
            self._open(path, flags)
        elif op == "rename":
            self._rename(path, target[len(self._root) + 1 :])
        elif op == "remove":
            parent, name = self._parent(path)
            parent.change({name: None})
        elif op == "make_folder":
            parent, name = self._parent(path)
            parent.change({name: Folder()})

    def after_kill(self) -> State:
        """Return what the next process finds after a kill of this one."""
        return dict(_walk(self.top.names, lambda file: file.versions[-1], lambda each: each.names))

    def after_crash(self, choices: Choices) -> State:
        """Return what it may find after a power cut."""
        return dict(
            _walk(
                self.top.after_crash(choices),
                lambda file: file.after_crash(choices),
                lambda folder: folder.after_crash(choices),
            )
        )

    def _open(self, path: str, flags: int) -> None:
        parent, name = self._parent(path) if path else (self.top, "")
        if flags & os.O_CREAT and name not in parent.names:
            parent.change({name: File()})
        elif flags & os.O_TRUNC:
            self._file(path).resize(0)

    def _rename(self, source: str, target: str) -> None:
        parent, name = self._parent(source)
        same, new_name = self._parent(target)
        assert parent is same, "a rename between folders is two changes: not modelled"
        parent.change({new_name: parent.names[name], name: None})

    def _node(self, path: str) -> Node:
        node: Node = self.top
        for name in path.split("/") if path else ():
            assert isinstance(node, Folder)
            node = node.names[name]
        return node

    def _file(self, path: str) -> File:
        node = self._node(path)
        assert isinstance(node, File), path
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        node = self._node(folder)
        assert isinstance(node, Folder), path
        return node, name

    def _sync_everything(self) -> None:
        folders = [self.top]
        while folders:
            folder = folders.pop()
            folder.sync()
            for node in folder.names.values():
                if isinstance(node, Folder):
                    folders.append(node)
                else:
                    node.sync()


class _Bytes(Protocol):
    def __call__(self, file: File, /) -> bytes: ...


class _Names(Protocol):
    def __call__(self, folder: Folder, /) -> dict[str, Node]: ...


def _walk(
    names: dict[str, Node], content: _Bytes, below: _Names, prefix: str = ""
) -> Iterator[tuple[str, bytes | None]]:
    for name, node in names.items():
        if isinstance(node, File):
            yield prefix + name, content(node)
        else:
            yield prefix + name, None
            yield from _walk(below(node), content, below, f"{prefix}{name}/")


def put(state: State, root: Path) -> None:
    """Create the files of a state in an empty folder."""
    for path, content in state.items():
        if content is None:
            os.mkdir(f"{root}/{path}", 0o700)  # noqa: PTH102 (thousands of states a minute)
        else:
            fd = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(fd, content)
            os.close(fd)
