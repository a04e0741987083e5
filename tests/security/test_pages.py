"""Pages over HTTP for somebody else's browser: text and JSON, whatever the names of clients are."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from broker.protocols.http.table import PAGES
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
KINDS = {"text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"}
KINDS |= {"application/json"}


@pytest.fixture
def hostile(broker: Broker, topic: str) -> Iterator[WireClient]:
    """A client, and a group, whose names are parts of pages."""
    with WireClient(broker.address, client_id=SCRIPT) as client:
        wire_requests.create_topic(client, topic)
        wire_requests.commit_offset(client, IMAGE, topic, 0)
        yield client


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_never_html_and_of_no_use_to_another_site(
    broker: Broker, hostile: WireClient, path: str
) -> None:
    with closing(http.client.HTTPConnection(broker.address, timeout=60)) as connection:
        connection.request("GET", path, headers={"Origin": "https://evil.example"})
        answer = connection.getresponse()
        text = answer.read().decode()

    headers = {name.lower(): value for name, value in answer.getheaders()}
    assert headers["content-type"] in KINDS
    assert headers["x-content-type-options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control")]
    if headers["content-type"] == "application/json":
        json.loads(text)


def test_names_of_clients_are_on_pages_as_they_are(broker: Broker, hostile: WireClient) -> None:
    """So that the test above is one of pages with these names."""
    with closing(http.client.HTTPConnection(broker.address, timeout=60)) as connection:
        connection.request("GET", "/clients")
        clients = connection.getresponse().read().decode()

    assert SCRIPT in json.dumps(json.loads(clients))


@pytest.mark.parametrize("path", PAGES)
def test_no_page_changes_anything(broker: Broker, path: str) -> None:
    with closing(http.client.HTTPConnection(broker.address, timeout=60)) as connection:
        connection.request("POST", path, headers={"Origin": "https://evil.example"})

        assert connection.getresponse().status == 405


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_method_is_not_the_begin_of_http(broker: Broker, method: str) -> None:
    with LineClient(broker.address) as client:
        client.send(f"{method} /health HTTP/1.1\r\nHost: x\r\n\r\n".encode())

        assert b"HTTP" not in client.end()
