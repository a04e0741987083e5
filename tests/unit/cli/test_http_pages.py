"""Pages of brokers, as commands read them."""

import socket
import time

import pytest

from broker.cli.http_pages import page_of
from broker.client.metadata import Cluster
from broker.model.address import Address
from broker.model.errors import TimedOut


def test_a_page_is_waited_for_as_long_as_any_answer_of_the_cluster() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address("127.0.0.1", silent.getsockname()[1])
        begun = time.monotonic()
        with pytest.raises(TimedOut, match="/clients"):
            page_of(Cluster([address], give_up_seconds=0.2), address, "/clients")

    assert time.monotonic() - begun < 5, "the default is 10 s"
