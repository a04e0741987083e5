"""docs/testing.md and the README: the example is run by pytest as a user does; plugin and xdist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs/testing.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PLUGIN = "broker.testing.pytest_plugin"


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder of its own, without this project's configuration."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def blocks(document: Path) -> list[str]:
    return BLOCK.findall(document.read_text())


def test_the_example_of_the_document_passes_in_two_workers(tmp_path: Path) -> None:
    """The README's test runs in one process, see below."""
    (tmp_path / "test_orders.py").write_text(blocks(DOCUMENT)[0])

    ended = run_pytest(tmp_path, "-n", "2")

    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


def test_the_example_without_pytest_prints_the_records(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", blocks(DOCUMENT)[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "a value" in printed.stdout


def test_the_readme_has_a_test_that_passes(tmp_path: Path) -> None:
    [example] = [each for each in blocks(ROOT / "README.md") if "def test_" in each]
    (tmp_path / "test_readme.py").write_text(example)

    ended = run_pytest(tmp_path)

    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


FRESH = """
def test_a(broker, topic):
    assert topic == "test_a"
    broker.produce(topic, b"x")

def test_b(broker):
    assert broker.topics() == {}

def test_c(broker_session, topic):
    assert list(broker_session.topics()) == ["test_c"]

def test_d(broker_session):
    assert list(broker_session.topics()) == ["test_c"]
"""


def test_a_broker_is_fresh_in_each_test_and_a_session_keeps_one(tmp_path: Path) -> None:
    (tmp_path / "test_fresh.py").write_text(FRESH)

    ended = run_pytest(tmp_path)

    assert "4 passed" in ended.stdout, ended.stdout + ended.stderr


def test_the_log_is_shown_below_a_test_that_fails_and_settings_are_taken(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture(scope='session')\ndef broker_settings():\n"
        "    return {'node.id': 7}\n"
    )
    (tmp_path / "test_it.py").write_text("def test_it(broker):\n    assert False\n")

    ended = run_pytest(tmp_path)

    assert "log of broker" in ended.stdout
    assert "node_id=7" in ended.stdout


def test_tests_without_a_broker_import_none(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    ours = {each for each in sys.modules if each.split('.')[0] == 'broker'}\n"
        f"    assert ours == {{'broker', 'broker.testing', 'broker.testing.limits', {PLUGIN!r}}}\n"
    )

    ended = run_pytest(tmp_path)

    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
