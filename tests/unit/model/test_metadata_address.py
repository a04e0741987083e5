"""The address of the metadata store."""

import pytest

from broker.model.address import Address
from broker.model.errors import ConfigError
from broker.model.metadata_address import EtcdAddress, parse_metadata_address


def test_sqlite_is_the_store_of_the_data_directory() -> None:
    assert parse_metadata_address("sqlite") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("etcd://h1:2379/p", EtcdAddress((Address("h1", 2379),), "p")),
        (
            "etcd://h1:1,[::1]:2/a/b/",
            EtcdAddress((Address("h1", 1), Address("::1", 2)), "a/b"),
        ),
    ],
)
def test_etcd_has_endpoints_and_a_prefix(text: str, expected: EtcdAddress) -> None:
    assert parse_metadata_address(text) == expected


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("zookeeper://h:1/p", "expected sqlite or etcd://"),
        ("etcd://h1:2379", "name a prefix"),
        ("etcd://h1:2379//", "name a prefix"),
        ("etcd://h1/p", "HOST:PORT"),
        ("etcd://user:secret@h1:2379/p", "no credentials"),
        ("etcd://h1:2379/p?tls=1", "no options"),
        ("etcd://h1:2379/prefix\x00", "ASCII"),
    ],
)
def test_anything_else_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        parse_metadata_address(text)
