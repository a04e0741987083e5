"""Every path and its page."""

from collections.abc import Mapping
from typing import Final

from broker.protocols.http.health import show_live, show_ok, show_ready
from broker.protocols.http.page import Page

PAGES: Final[Mapping[str, Page]] = {
    "/": Page(show_ok),
    "/health": Page(show_ok),
    "/live": Page(show_live),
    "/ready": Page(show_ready),
}
