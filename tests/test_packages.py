"""What a package index and a release have: the README, the metadata, the wheels, the workflows."""

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from tests.test_distribution import ROOT, groups, project, pyproject
from tools import release_check
from tools.index_readme import README, with_absolute_links
from tools.wheels import BYTES_MAX

SOURCE = "https://code.example/polylog"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
ONLY_LINKS = re.compile(r"\]\(([^)\s]+)\)")


def test_links_and_images_of_the_readme_lead_to_the_repository() -> None:
    text = (
        "[a](docs/cli.md#habits) ![c](docs/lag.png) [d](#d) [e](https://example.org/e) [f](LICENSE)"
    )

    shown = with_absolute_links(text, SOURCE)

    assert ONLY_LINKS.findall(shown) == [
        f"{SOURCE}/blob/main/docs/cli.md#habits",
        f"{SOURCE}/raw/main/docs/lag.png",
        f"{SOURCE}/blob/main/README.md#d",
        "https://example.org/e",
        f"{SOURCE}/blob/main/LICENSE",
    ]


def test_every_link_of_the_installed_description_is_absolute_and_its_page_exists() -> None:
    source = project()["urls"]["Source"]
    text = str(metadata("polylog-broker").json["description"])

    links = ONLY_LINKS.findall(text)

    assert len(links) > 10
    assert [each for each in links if not each.startswith("https://")] == []
    pages = [each.removeprefix(f"{source}/blob/main/").partition("#")[0] for each in links]
    assert [each for each in pages if ":" not in each and not (ROOT / each).exists()] == []
    assert text.strip() == with_absolute_links(README.read_text(), source).strip()


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


def test_every_project_url_is_in_one_place() -> None:
    urls = project()["urls"]

    assert {"Source", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert [each for each in urls.values() if not each.startswith(urls["Source"])] == []
    files = [each.partition("/blob/main/")[2] for each in urls.values()]
    assert [each for each in files if not (ROOT / each).exists()] == []


def test_the_notice_names_files_that_exist() -> None:
    named = re.findall(r"\((src/[\w/.]+)\)", (ROOT / "NOTICE").read_text())

    assert named
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_a_release_is_refused_until_tag_changelog_and_address_fit() -> None:
    version, source = project()["version"], project()["urls"]["Source"]
    changelog = f"CHANGELOG.md has no section of {version}"

    wrong = release_check.problems("v99.0.0", SOURCE)
    right = release_check.problems(f"v{version}", source)

    assert wrong[0] == f"the tag is v99.0.0, the version in pyproject.toml is {version}"
    assert len([each for each in wrong if each.endswith(f"not in {SOURCE}")]) == len(
        project()["urls"]
    )
    assert set(right) <= {changelog}


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


@pytest.mark.client
@pytest.mark.slow("makes a wheel of the build that is there, and installs it with its dependencies")
def test_a_wheel_is_small_and_its_broker_works_in_an_empty_environment(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    pythons = [sys.executable]
    if pytestconfig.getoption("--every-python"):
        found = Path(sys.base_prefix).parent.glob("3.1[1-9]*/bin/python3")
        pythons = sorted(map(str, found)) or pythons
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
