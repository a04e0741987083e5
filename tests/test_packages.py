"""What a package index and a release have: the README, the metadata, the wheels, the workflows."""

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from tests.test_distribution import ROOT, groups, project, pyproject
from tools import release_check
from tools.index_readme import PAGES, README, VARIABLE, dynamic_metadata, for_index
from tools.wheels import BYTES_MAX, found_interpreters

SOURCE = "https://code.example/polylog"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
ONLY_LINKS = re.compile(r"\]\(([^)\s]+)\)")


def test_links_and_images_of_the_readme_lead_to_the_repository() -> None:
    text = (
        "[a](docs/cli.md#habits) ![c](docs/lag.png) [d](#d) [e](https://example.org/e) [f](LICENSE)"
    )

    shown = for_index(text, SOURCE)

    assert ONLY_LINKS.findall(shown) == [
        f"{SOURCE}/blob/main/docs/cli.md#habits",
        f"{SOURCE}/raw/main/docs/lag.png",
        f"{SOURCE}/blob/main/README.md#d",
        "https://example.org/e",
        f"{SOURCE}/blob/main/LICENSE",
    ]


def test_a_readme_whose_repository_is_not_known_has_no_links_within_it() -> None:
    text = "see [a](docs/cli.md#habits), ![a plot](docs/lag.png), [e](https://example.org/e)"

    assert for_index(text, "") == "see a, a plot, [e](https://example.org/e)"


def test_every_link_of_the_installed_description_is_absolute_and_its_page_exists() -> None:
    found = metadata("polylog-broker")
    urls = dict(each.split(", ", 1) for each in found.get_all("Project-URL") or ())
    source = urls.get("Source", "")
    text = str(found.json["description"])

    assert urls == ({label: source + page for label, page in PAGES.items()} if source else {})
    links = ONLY_LINKS.findall(text)
    assert [each for each in links if not each.startswith("https://")] == []
    assert text.strip() == for_index(README.read_text(), source).strip()


def test_the_links_of_the_readme_and_the_urls_lead_to_files_of_the_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, f"{SOURCE}/")

    fields = dynamic_metadata({}, {})

    links = ONLY_LINKS.findall(fields["readme"]["text"])
    pages = [each.removeprefix(f"{SOURCE}/blob/main/").partition("#")[0] for each in links]
    assert len(pages) > 10
    assert [each for each in pages if ":" not in each and not (ROOT / each).exists()] == []
    assert {"Source", "Documentation", "Changelog", "Issues"} <= fields["urls"].keys()
    assert [each for each in fields["urls"].values() if not each.startswith(SOURCE)] == []
    files = [each.partition("/blob/main/")[2] for each in fields["urls"].values()]
    assert [each for each in files if not (ROOT / each).exists()] == []


def test_a_build_that_is_not_told_where_the_repository_is_names_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    assert dynamic_metadata({}, {})["urls"] == {}
    assert "urls" not in project()


def test_the_supported_pythons_are_the_same_everywhere() -> None:
    classified = [
        each.rpartition(" ")[2]
        for each in project()["classifiers"]
        if re.search(r"Python :: 3\.\d+$", each)
    ]
    built = re.findall(r"cp3(\d+)-", " ".join(pyproject()["tool"]["cibuildwheel"]["build"]))
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()

    assert tuple(classified) == SUPPORTED
    assert tuple(f"3.{each}" for each in built) == SUPPORTED
    assert re.findall(r'"(3\.\d+)"', workflow) == list(SUPPORTED)
    assert project()["requires-python"] == f">={SUPPORTED[0]}"


def test_what_development_needs_is_not_in_the_metadata() -> None:
    found = metadata("polylog-broker")

    extras = set(found.get_all("Provides-Extra") or ())
    assert extras == set(project()["optional-dependencies"])
    assert not extras & set(groups())
    assert found.get_all("License-File") == ["LICENSE", "NOTICE"]


def test_the_notice_names_files_that_exist() -> None:
    named = re.findall(r"\((src/[\w/.]+)\)", (ROOT / "NOTICE").read_text())

    assert named
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_a_release_is_refused_until_tag_and_changelog_fit() -> None:
    version = project()["version"]

    wrong = release_check.problems("v99.0.0")
    right = release_check.problems(f"v{version}")

    assert wrong[0] == f"the tag is v99.0.0, the version in pyproject.toml is {version}"
    assert set(right) <= {f"CHANGELOG.md has no section of {version}"}


def test_a_release_tells_every_build_where_it_comes_from() -> None:
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    passed = pyproject()["tool"]["cibuildwheel"]["environment-pass"]

    [given] = re.findall(rf"^  {VARIABLE}: (.*?)  #", workflow, re.MULTILINE)
    assert given == "${{ github.server_url }}/${{ github.repository }}"
    assert VARIABLE in passed


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda f: f.name
)
def test_workflows_pin_their_actions_and_grant_nothing_by_default(file: Path) -> None:
    text = file.read_text()

    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [
        each
        for each in used
        if not re.search(r"@(?:v\d+(\.\d+)*|release/v\d+|[0-9a-f]{40})$", each)
    ] == []
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
    assert "secrets." not in text
    assert len(re.findall(r"timeout-minutes:", text)) == len(re.findall(r"runs-on:", text))


def test_the_release_runs_what_the_repository_has() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()

    tools = re.findall(r"python -m tools\.(\w+)|python (tools/\w+\.py)", text)
    assert [a or b for a, b in tools] == ["release_check", "tools/first_message.py"]
    assert (ROOT / "tools/first_message.py").exists()
    assert "tools/first_message.py" in pyproject()["tool"]["cibuildwheel"]["test-command"]


def test_a_wheel_is_made_for_each_supported_python_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = f"3.{sys.version_info.minor}"
    there, missing = (each for each in SUPPORTED[:3] if each != own)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    for folder, version, code in (
        ("shims", there, 127),  # of a version that is not selected
        (f"versions/{there}.9/bin", there, 0),
        (f"versions/{there}.10/bin", there, 0),
        (f"versions/{missing}.1/bin", missing, 1),
    ):
        program = tmp_path / folder / f"python{version}"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)

    found = found_interpreters()

    newest = str(tmp_path / f"versions/{there}.10/bin/python{there}")
    assert sorted(found) == sorted([sys.executable, newest])
    assert f"python{missing}: skipped, neither on PATH nor in {tmp_path}" in capsys.readouterr().out


@pytest.mark.client
@pytest.mark.slow("makes a wheel of the build that is there, and installs it with its dependencies")
def test_a_wheel_is_small_and_its_broker_works_in_an_empty_environment(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    pythons = [sys.executable]
    if pytestconfig.getoption("--every-python"):
        pythons = found_interpreters()
    options = [option for each in pythons for option in ("--python", each)]

    done = subprocess.run(
        [sys.executable, "-m", "tools.wheels", "--out", str(tmp_path), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    wheels = list(tmp_path.glob("*manylinux*.whl"))
    assert len(wheels) == len(pythons)
    assert all(each.stat().st_size <= BYTES_MAX for each in wheels)
    assert done.stdout.count("consumed b'hello', the broker ended with 0") == len(pythons)
