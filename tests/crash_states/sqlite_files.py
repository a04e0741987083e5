"""Records what SQLite tells the disk, by functions that take the place of its own.

SQLite opens files through a table of functions (sqlite3_vfs), and each open file has one of its own
(sqlite3_io_methods). Here the functions that change something call the original ones, and record
the operation as `file_ops.recorded` would. The library is that of the module sqlite3: the process
has it once.

Not recorded, because the product's files of streams do without: mapped files, and files that grow
in chunks.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tests.crash_states.disk import Operation

_OK: Final = 0
_OPEN_CREATE: Final = 0x4
_NAME_IS_SYNCED: Final = 0x800 | 0x4000 | 0x80000  # with the first sync: journals, and the WAL

_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
# Names are addresses: an open file keeps the one that it was given.
_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)


# Both tables as slots of pointers: sqlite3_io_methods of version 3, the first half of sqlite3_vfs.
_Methods = c_void_p * 19
_WRITE, _TRUNCATE, _SYNC = 3, 4, 5
_Vfs = c_void_p * 7
_OPEN, _DELETE = 5, 6


class Notes(Protocol):
    """Takes operations, in their order."""

    def note(self, operation: Operation) -> None:
        """Take the next one."""


class _Table(NamedTuple):
    """The table of an open file, and the original functions of those that are replaced."""

    own: Any
    write: Callable[[int, int, int, int], int]
    truncate: Callable[[int, int], int]
    sync: Callable[[int, int], int]


class _Recorder:
    """The functions, while something is recorded."""

    def __init__(self, vfs: Any, notes: Notes, name: str) -> None:
        self._notes, self._name = notes, name
        self._paths: dict[int, str] = {}  # by the address of an open file
        self._unnamed: set[int] = set()  # files whose folder is synced with them, once
        self._tables: dict[int, _Table] = {}  # by the addresses of the original, and of the own
        self._original_open, self._original_delete = _Open(vfs[_OPEN]), _Delete(vfs[_DELETE])
        self._own_open, self._own_delete = _Open(self._open), _Delete(self._delete)
        self._write = _Write(self._on_write)
        self._truncate = _Truncate(self._on_truncate)
        self._sync = _Sync(self._on_sync)
        vfs[_OPEN], vfs[_DELETE] = _address(self._own_open), _address(self._own_delete)

    def restore(self, vfs: Any) -> None:
        """Use the original functions for what is opened from now on."""
        vfs[_OPEN], vfs[_DELETE] = _address(self._original_open), _address(self._original_delete)

    def _open(self, vfs: int, name: int | None, file: int, flags: int, flags_out: int) -> int:
        code: int = self._original_open(vfs, name, file, flags, flags_out)
        if code == _OK and name is not None and self._is_recorded(_path(name)):
            self._paths[file] = _path(name)
            create = os.O_CREAT if flags & _OPEN_CREATE else 0
            self._note("open", self._paths[file], create)
            self._unnamed.discard(file)
            if create and flags & _NAME_IS_SYNCED:
                self._unnamed.add(file)
            self._replace(c_void_p.from_address(file))
        return code

    def _replace(self, methods: c_void_p) -> None:
        """Have an open file use another table."""
        address = methods.value or 0
        if address not in self._tables:
            original = _Methods.from_address(address)
            own = _Methods.from_buffer_copy(original)
            own[_WRITE], own[_TRUNCATE] = _address(self._write), _address(self._truncate)
            own[_SYNC] = _address(self._sync)
            self._tables[address] = self._tables[ctypes.addressof(own)] = _Table(
                own,
                _Write(original[_WRITE] or 0),
                _Truncate(original[_TRUNCATE] or 0),
                _Sync(original[_SYNC] or 0),
            )
        methods.value = ctypes.addressof(self._tables[address].own)

    def _table(self, file: int) -> _Table:
        return self._tables[c_void_p.from_address(file).value or 0]

    def _on_write(self, file: int, data: int, size: int, position: int) -> int:
        code: int = self._table(file).write(file, data, size, position)
        if code == _OK:
            self._note("write", self._paths[file], position, size, ctypes.string_at(data, size))
        return code

    def _on_truncate(self, file: int, size: int) -> int:
        code: int = self._table(file).truncate(file, size)
        if code == _OK:
            self._note("truncate", self._paths[file], 0, size)
        return code

    def _on_sync(self, file: int, flags: int) -> int:
        code: int = self._table(file).sync(file, flags)
        if code == _OK:
            path = self._paths[file]
            self._note("sync_data", path)
            if file in self._unnamed:
                self._unnamed.discard(file)
                self._note("sync_folder", os.path.dirname(path))  # noqa: PTH120 (for each sync)
        return code

    def _delete(self, vfs: int, name: int, syncs_folder: int) -> int:
        path = _path(name)
        existed = Path(path).exists()
        code: int = self._original_delete(vfs, name, syncs_folder)
        if code == _OK and existed and self._is_recorded(path):
            self._note("remove", path)
            if syncs_folder:
                self._note("sync_folder", os.path.dirname(path))  # noqa: PTH120 (as above)
        return code

    def _is_recorded(self, path: str) -> bool:
        return Path(path).name.startswith(self._name)

    def _note(
        self, name: str, path: str, position: int = 0, size: int = 0, data: bytes = b""
    ) -> None:
        self._notes.note((name, path, position, size, data, max(size, 0)))


@contextmanager
def recording_sqlite(notes: Notes, name: str) -> Iterator[None]:
    """Record what is done with databases of a name, if they are opened in the meantime."""
    library = ctypes.CDLL("libsqlite3.so.0")
    library.sqlite3_vfs_find.restype = c_void_p
    library.sqlite3_vfs_find.argtypes = (c_char_p,)
    vfs = _Vfs.from_address(library.sqlite3_vfs_find(None))
    recorder = _Recorder(vfs, notes, name)
    try:
        yield
    finally:
        recorder.restore(vfs)


def _path(name: int) -> str:
    return os.fsdecode(ctypes.string_at(name))


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value
