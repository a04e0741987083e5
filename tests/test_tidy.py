"""Source rules of this project that no linter checks."""

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "src" / "broker"
NATIVE = ROOT / "src" / "_native"
# A later one uses earlier ones.
NATIVE_FOLDERS = ["kernel", "messages", "records", "log", "wire", "replication", "protocols"]
NATIVE_PROTOCOLS = sorted(each.name for each in (NATIVE / "protocols").iterdir() if each.is_dir())
# The names of protocols and their words for requests.
WORDS_OF_PROTOCOLS = re.compile(
    rf"(?<![a-z])(?:{'|'.join(NATIVE_PROTOCOLS)}|fetch(?:es|ed|ing)?|produces?|api_\w+)(?![a-z])",
    re.IGNORECASE,
)

LINES_MAX = 900
READMES_LINES_MAX = 90
NATIVE_MAY_IMPORT = (
    "broker._native",
    "broker.model.errors",
    "broker.model.http_limits",
    "broker.model.limits",
    "broker.model.log_results",
    "broker.model.security_limits",
    "broker.model.stream_limits",
    "broker.model.tls_limits",
)

FILE_SYSCALLS = (
    "copy_file_range|creat|fallocate|fdatasync|fopen|fsync|ftruncate|madvise|mkdir|mmap|msync|munmap"
    "|open|openat|posix_fallocate|pread|preadv|pwrite|pwritev|remove|rename|renameat|rmdir|sendfile"
    "|sync_file_range|truncate|unlink|unlinkat|write"
)
# Everything else on files uses broker._native.kernel.file_ops.
FILE_METHODS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "unlink"}
MAY_USE_FILES = {
    "cli/audit/verify_verb.py": {"open"},  # the user's copy of an audit
    "cli/cert/files.py": {"open", "read_bytes"},  # the user's authority and certificates
    "cli/profiles.py": {"read_text", "write_text"},  # the user's names for brokers
    "cli/reporting.py": {"open"},  # the null device, when whoever reads the output has gone
    "cli/text_files.py": {"open"},  # the user's settings of topics, groups and brokers
    "cli/topic/export_files.py": {"open", "unlink"},  # the user's files
    "cli/topic/export_verb.py": {"open"},  # the same
    "cli/topic/import_verb.py": {"open"},  # the same
    "cli/topic/produce_verb.py": {"open"},  # the same
    "cli/debug/bundle_verb.py": {"open"},  # the user's bundle, and the logs in it
    "cli/docs.py": {"read_text"},  # the installed pages
    "cli/user/passwords.py": {"open"},  # the files that a user has passwords in
    "cli/metadata/import_verb.py": {"read_text"},  # the user's export
    "client/security.py": {"open"},  # the user's settings of a client
    "cli/doctor/directory.py": {"open", "read_text"},  # what it looks for in a data directory
    "cli/group/saved_offsets.py": {"unlink", "write_text"},  # offsets that a group had before
    "codec/schema.py": {"open"},  # its own table of messages
    "core/security/token_keys.py": {"open"},  # public keys of an authorization server
    "model/config_providers.py": {"read_text"},  # what the user's settings refer to
    "model/config_sources.py": {"read_text"},  # the user's settings
    "model/secret_file.py": {"open"},  # the user's keys and passwords
    "protocols/cursus/importing/directory.py": {"open"},  # of another server, read sequentially
    "protocols/cursus/importing/journal.py": {"open"},  # the same
    "protocols/rustlog/importing/directory.py": {"open"},  # the same
    "protocols/v1/importing/directory.py": {"open"},  # the same
    "segments/file.py": {"open"},  # reads a log whose broker is another process, or none
    "segments/index.py": {"open"},  # the same
    "server/measuring.py": {"read_text"},  # what the kernel says of the process
    "server/memory.py": {"read_text"},  # what the kernel says of control groups
    "testing/broker.py": {"open", "read_text"},  # the log of a test's broker
    "testing/process.py": {"open"},  # /dev/null
    "storage/log_dir.py": {"open"},  # the lock between processes
    "storage/metadata/sqlite/database.py": {"unlink"},  # SQLite's own files
    "storage/metadata/sqlite/process_locks.py": {"open"},  # locks between processes
    "storage/metadata/sqlite/wakeups.py": {"open", "unlink"},  # a folder of sockets
}

SOURCES = sorted(
    file
    for folder in ("src", "tests", "benchmarks", "tools")
    for pattern in ("*.py", "*.pyi", "*.pyx", "*.pxd", "*.c", "*.h")
    for file in (ROOT / folder).rglob(pattern)
)
NATIVE_SOURCES = [file for file in SOURCES if file.is_relative_to(NATIVE)]


def name_of(file: Path) -> str:
    """Return a file's path within the project."""
    return str(file.relative_to(ROOT))


def code_of(file: Path) -> str:
    """The text of a native source without its comments, strings and docstrings."""
    text = file.read_text()
    if file.suffix in {".c", ".h"}:
        return re.sub(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', "", text, flags=re.DOTALL)
    text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    return re.sub(r'#[^\n]*|b?"[^"\n]*"', "", text)


@pytest.mark.parametrize("file", NATIVE_SOURCES, ids=name_of)
def test_native_code_imports_only_allowed_modules_of_the_package(file: Path) -> None:
    imports = re.findall(
        r"^\s*(?:from|import|cimport) (broker[\w.]*)(?: import (\w+))?",
        code_of(file),
        re.MULTILINE,
    )
    imported = [f"{module}.{name}" for module, name in imports]

    assert [name for name in imported if not name.startswith(NATIVE_MAY_IMPORT)] == []


@pytest.mark.parametrize(
    ("lower", "higher"),
    list(itertools.combinations(NATIVE_FOLDERS, 2)),
)
def test_native_folders_import_downwards(lower: str, higher: str) -> None:
    wrong = [
        name_of(file)
        for file in NATIVE_SOURCES
        if file.relative_to(NATIVE).parts[0] == lower
        and re.search(rf"\bbroker\._native\.{higher}\b|\"{higher}/", file.read_text())
    ]

    assert wrong == []


@pytest.mark.parametrize("protocol", NATIVE_PROTOCOLS)
def test_a_native_protocol_imports_no_other_protocol(protocol: str) -> None:
    others = "|".join(each for each in NATIVE_PROTOCOLS if each != protocol)
    wrong = [
        name_of(file)
        for file in NATIVE_SOURCES
        if file.is_relative_to(NATIVE / "protocols" / protocol)
        and re.search(rf"\bbroker\._native\.protocols\.(?:{others})\b", file.read_text())
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("log", r"\bKafka\b"),  # in comments, as the source of its files' formats
        ("wire", r"(?!)"),  # nothing
    ],
)
def test_logs_and_connections_name_no_protocol(folder: str, allowed: str) -> None:
    found = [
        f"{name_of(file)}: {line.strip()}"
        for file in NATIVE_SOURCES
        if file.is_relative_to(NATIVE / folder)
        for line in re.sub(allowed, "", file.read_text()).splitlines()
        if WORDS_OF_PROTOCOLS.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("file", NATIVE_SOURCES, ids=name_of)
def test_only_file_ops_makes_file_syscalls(file: Path) -> None:
    if file.name.startswith("file_ops"):
        return
    # The declaration of a method does not count, a call does.
    code = re.sub(r"^\s*(?:cdef|cpdef|def)\b[^=(\n]*\(", "", code_of(file), flags=re.MULTILINE)

    assert re.findall(rf"(?<![\w.>])(?:{FILE_SYSCALLS})\(", code) == []
    assert re.findall(rf'"(?:{FILE_SYSCALLS})"\(', file.read_text()) == []  # under another name


def test_python_touches_files_only_in_named_places() -> None:
    found: dict[str, set[str]] = {}
    for file in PYTHON.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            for name in file_calls(node):
                found.setdefault(str(file.relative_to(PYTHON)), set()).add(name)

    assert found == MAY_USE_FILES


def file_calls(node: ast.AST) -> Iterator[str]:
    """Yield the names under which a node calls something that opens or changes a file."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id == "open":
        yield node.func.id
    if isinstance(node.func, ast.Attribute) and node.func.attr in FILE_METHODS:
        yield node.func.attr


def test_a_statement_for_sqlite_numbers_no_parameters() -> None:
    """From Python 3.14 on, sqlite3 binds no sequence to `?1`; it warns in 3.12."""
    numbered = re.compile(r"""[\s(=]\?[0-9]+[\s,)"']""")

    assert [
        name_of(file) for file in PYTHON.rglob("*.py") if numbered.search(file.read_text())
    ] == []


def test_a_todo_names_its_issue() -> None:
    nameless = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b(?!\(#\d+\))")

    assert [name_of(file) for file in SOURCES if nameless.search(file.read_text())] == []


def test_a_source_file_has_at_most_a_few_hundred_lines() -> None:
    lengths = {name_of(file): file.read_text().count("\n") for file in SOURCES}
    del lengths["src/broker/codec/bodies.py"]  # generated

    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


def test_a_readme_of_a_package_is_short() -> None:
    for file in (ROOT / "src").rglob("README.md"):
        assert file.read_text().count("\n") <= READMES_LINES_MAX, name_of(file)


def test_every_compiled_module_has_a_stub() -> None:
    modules = [file.relative_to(NATIVE) for file in NATIVE.rglob("*.pyx")]

    assert modules
    for module in modules:
        assert (PYTHON / "_native" / module).with_suffix(".pyi").exists(), module


def read_of_limits(code: str) -> set[str]:
    """The names of model/limits.py that a source reads."""
    imported = re.findall(r"^from broker\.model\.limits import (\([^)]*\)|.*)", code, re.MULTILINE)
    return {*re.findall(r"\blimits\.(\w+)", code), *re.findall(r"\w+", " ".join(imported))}


def unread_limits(limits: str, read: set[str]) -> set[str]:
    """Return the names that limits.py defines and nothing uses, not even a used limit."""
    needs: dict[str, set[str]] = {}
    for node in ast.parse(limits).body:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if isinstance(node, ast.Assign):
            needs |= {each.id: names for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.FunctionDef):
            needs[node.name] = names
    reached = set()
    waiting = read & needs.keys()
    while waiting:
        reached |= waiting
        waiting = set().union(*(needs[name] for name in waiting)) & needs.keys() - reached
    return needs.keys() - reached


def test_every_limit_is_used() -> None:
    limits = PYTHON / "model" / "limits.py"
    ours = [file for file in SOURCES if file.is_relative_to(ROOT / "src") and file != limits]
    read = set().union(*(read_of_limits(code_of(file)) for file in ours))

    assert unread_limits(limits.read_text(), read) == set()


@pytest.mark.parametrize(
    ("reader", "unread"),
    [
        ("from broker.model.limits import most", {"IDLE"}),  # an assert does not use it
        ("limits.IDLE", {"UNIT", "OWN", "most"}),
        ("OWN = 5  # a constant of the same name", {"UNIT", "OWN", "IDLE", "most"}),
    ],
)
def test_an_unused_limit_is_detected(reader: str, unread: set[str]) -> None:
    limits = "UNIT = 2\nOWN = 3 * UNIT\nIDLE = 4\nassert IDLE > OWN\ndef most(x): return x + OWN"

    assert unread_limits(limits, read_of_limits(reader)) == unread


def defined_twice(code: str) -> set[str]:
    """Return the names that a module defines more than once: the last one wins silently."""
    names: list[str] = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign):
            names += [each.id for each in node.targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
    return {name for name, count in Counter(names).items() if count > 1}


def test_every_limit_is_defined_once() -> None:
    assert defined_twice((PYTHON / "model" / "limits.py").read_text()) == set()


@pytest.mark.parametrize(
    ("again", "found"),
    [
        ("MOST: Final = 4", {"MOST"}),
        ("def most(x): return x", {"most"}),
        ("OTHER = MOST", set()),
        ("assert MOST == 3", set()),
    ],
)
def test_a_limit_defined_twice_is_detected(again: str, found: set[str]) -> None:
    assert defined_twice(f"MOST = 3\ndef most(x): return x + MOST\n{again}") == found


def paths() -> list[str]:
    """Return the names on the paths of a produce and of a fetch in the native README."""
    text = (NATIVE / "README.md").read_text()
    sections = re.findall(
        r"^## The path of a \w+\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert len(sections) == 2, "a produce and a fetch"
    return sorted(set(re.findall(r"`([A-Z]\w+(?:\.\w+)?|[a-z]\w+_\w+)`", "\n".join(sections))))


@pytest.mark.parametrize("name", paths())
def test_the_documented_produce_and_fetch_paths_name_existing_functions(name: str) -> None:
    owner, _, member = name.rpartition(".")
    code = "\n".join(code_of(file) for file in NATIVE_SOURCES)
    if owner:
        bodies = re.findall(
            rf"^cdef class {owner}(?:\(\w+\))?:\n((?:(?:[ \t].*)?\n)*)", code, re.MULTILINE
        )

        assert re.search(rf"^    (?:cdef|cpdef|def) .*\b{member}\(", "".join(bodies), re.MULTILINE)
    else:
        assert re.search(
            rf"^cdef (?:(?:class|struct) {member}:|.*\b{member}\()", code, re.MULTILINE
        )
