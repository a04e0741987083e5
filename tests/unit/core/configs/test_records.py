"""Configurations as the metadata store has them."""

import pytest

from broker.core.cluster.image import ClusterImage
from broker.core.configs import records
from broker.model.errors import StorageError
from broker.storage.metadata import KeyValue


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [(b"\xff", b'{"version":1,"config":{}}', "delete that key"), (b"a", b"{}", "damaged")],
)
def test_a_key_or_value_that_cannot_be_read_is_named(name: bytes, value: bytes, says: str) -> None:
    image = ClusterImage()
    image.configs[b"conf/topic/" + name] = KeyValue(b"conf/topic/" + name, value, 1, 1)

    with pytest.raises(StorageError, match=says):
        records.read_all(image, b"conf/topic/")
