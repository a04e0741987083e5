"""No code is made of data: nothing is evaluated, unpickled, loaded by its name or given to a shell.

What a client, a file or a setting says is text. Modules that import others by their name are
listed here.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "broker"
BUILT_IN = {"eval", "exec", "compile", "__import__"}
LOADERS = {
    *("import_module", "run_path", "run_module", "exec_module", "load_module"),
    *("spec_from_file_location", "LoadLibrary", "CDLL", "PyDLL", "system", "popen"),
}
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
SUSPECT = re.compile(
    rf"(?<!re\.)\b({'|'.join(BUILT_IN | LOADERS)})\(|\b({'|'.join(UNPICKLERS)}|shell=)"
)
# What is imported has one of a fixed number of names: of files of this package, of packages in
# the code, of the library that Python's ssl has loaded.
ALLOWED = {
    "cli/__init__.py": {"import_module"},
    "cli/frame.py": {"import_module"},
    "cli/importing/__init__.py": {"import_module"},
    "cli/tree.py": {"import_module"},
    "codec/packages.py": {"import_module"},
    "core/tls/certificate_sizes.py": {"PyDLL"},
    "pipeline/__init__.py": {"import_module"},
    "pipeline/java.py": {"import_module"},
    "pipeline/source/polylog.py": {"import_module"},
    "protocols/kafka/table.py": {"import_module"},
    "protocols/registry.py": {"import_module"},
}


def forbidden(code: str) -> set[str]:
    """Return the names in a source that make code of data."""
    found: set[str] = set()
    if not SUSPECT.search(code):  # most have none, and parsing takes long
        return found
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= UNPICKLERS & {each.name for each in names}
                found |= UNPICKLERS & {getattr(node, "module", None)}
            # Without anything, or with None, they load nothing: platform.system(), CDLL(None).
            case ast.Call(args=[] | [ast.Constant(value=None)]):
                continue
            case ast.Call(func=ast.Name(id=name)) if name in BUILT_IN | LOADERS:
                found.add(name)
            case ast.Call(func=ast.Attribute(attr=name)) if name in LOADERS:
                found.add(name)
            case ast.keyword(arg="shell", value=value):
                found |= set() if isinstance(value, ast.Constant) and not value.value else {"shell"}
            case _:
                continue
    return found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("eval(text)", {"eval"}),
        ("from importlib import import_module as load\nimport_module(text)", {"import_module"}),
        ("importlib.import_module(text)", {"import_module"}),
        ("import pickle", {"pickle"}),
        ("from pickle import loads", {"pickle"}),
        ("os.system(text)", {"system"}),
        ("subprocess.run(text, shell=True)", {"shell"}),
        ("subprocess.run(text, shell=is_shell)", {"shell"}),
        ("subprocess.run(words, shell=False)\nre.compile(text)\nconnection.execute(text)", set()),
    ],
)
def test_what_makes_code_of_data_is_found(code: str, found: set[str]) -> None:
    assert forbidden(code) == found


def test_nothing_makes_code_of_data() -> None:
    found = {
        str(file.relative_to(SOURCES)): calls
        for file in sorted(SOURCES.rglob("*.py"))
        if (calls := forbidden(file.read_text()))
    }

    assert found == ALLOWED
