"""`broker docs`: the pages of this version, without a network."""

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.model.errors import ErrorCode, RequestError

_SUFFIX: Final = ".md"


class Page(NamedTuple):
    """A page.

    Attributes:
        page: its name for this command.
        title: its heading.
        text: the page itself as Markdown; null in the list of all pages.
    """

    page: str
    title: str
    text: str | None


def pages() -> Mapping[str, Traversable]:
    """Return the installed pages by name: docs/security/tls.md is `security/tls`."""
    root = files("broker") / "documents"
    if not root.is_dir():
        return {}
    top = {_stem(each).lower(): each for each in root.iterdir() if each.name.endswith(_SUFFIX)}
    return dict(sorted({**top, **_below(root / "docs", "")}.items()))


def _below(folder: Traversable, path: str) -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= _below(each, f"{path}{each.name}/")
        elif each.name.endswith(_SUFFIX):
            found[f"{path}{_stem(each)}".removesuffix("/README")] = each
    return found


def _stem(page: Traversable) -> str:
    return page.name.removesuffix(_SUFFIX)


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    del context, parameter
    return [each for each in pages() if each.startswith(incomplete)]


def _title(text: str) -> str:
    return next((line.lstrip("# ") for line in text.splitlines() if line.startswith("#")), "")


@verb(
    Page,
    name="docs",
    columns=("page", "title"),
    is_local=True,
    examples=("broker docs", "broker docs quickstart", "broker docs security/tls | less"),
)
@click.argument("page", required=False, shell_complete=_names)
def command(session: Session, page: str | None) -> None:
    """Show a page of the documentation of this version, or list the pages."""
    found = pages()
    if page is None:
        for name, each in found.items():
            session.write(Page(name, _title(each.read_text(encoding="utf-8")), None))
        return
    name = page.removeprefix("docs/").removesuffix(_SUFFIX)
    if name not in found:
        raise RequestError(
            ErrorCode.RESOURCE_NOT_FOUND, f"there is no page {page!r}: `broker docs` lists them"
        )
    text = found[name].read_text(encoding="utf-8")
    session.print_text(Page(name, _title(text), text), "text")


NOUN: Final = command
