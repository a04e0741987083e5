"""Configuration entries as clients see them."""

from broker.model.config import load
from broker.protocols.kafka.configs import description_fields

CANARY = "canary-5c1f"
KAFKA_PASSWORD = 9  # ConfigType.PASSWORD


def test_describing_configs_gives_passwords_no_value() -> None:
    config = load([f"ssl.key.password={CANARY}"])
    [entry] = [each for each in config.describe() if each.name == "ssl.key.password"]

    fields = description_fields(entry, has_synonyms=True, has_documentation=True)

    assert fields["is_sensitive"]
    assert fields["value"] is None
    assert fields["synonyms"] == [{"name": "ssl.key.password", "value": None, "source": 4}]
    assert fields["config_type"] == KAFKA_PASSWORD
