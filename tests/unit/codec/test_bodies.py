"""The types of message bodies are those of the schemas, and handlers are annotated with them."""

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest

from broker.codec import bodies, schema
from broker.codec.schema import Message
from broker.protocols.kafka.api import Api
from broker.protocols.kafka.table import APIS
from tools import bodies as writer

FILE = Path(__file__).parents[3] / "src" / "broker" / "codec" / "bodies.py"
MESSAGES = [each for key in APIS for each in (schema.request(key), schema.response(key))]


def test_the_module_is_what_the_tool_writes() -> None:
    assert FILE.read_text() == writer.text()


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_a_decoded_body_has_the_fields_of_its_type_in_every_version(message: Message) -> None:
    type_of_body = getattr(bodies, message.name)
    for version in message.versions:
        body, _ = message.decode(version, message.encode(version, one_of_each(message.fields)))

        check(body, type_of_body, message.name)


@pytest.mark.parametrize("api", APIS.values())
def test_a_handler_is_annotated_with_the_types_of_its_api(api: Api) -> None:
    annotations = dict(api.handle.__annotations__)
    returned = annotations.pop("return")
    request, _ = annotations.values()

    assert request == f"Request[bodies.{api.name}Request]"
    assert set(re.findall(r"bodies\.(\w+)", returned)) == {f"{api.name}Response"}


def one_of_each(fields: list[schema.Definition]) -> dict[str, Any]:
    """Return a body with one element in each array of structs."""
    return {
        field.name: [one_of_each(field.fields)] if field.type == "[]" else one_of_each(field.fields)
        for field in fields
        if field.fields
    }


def check(value: Any, expected: Any, where: str) -> None:
    """Check a decoded value and everything in it against its type."""
    if is_typeddict(expected):
        hints = get_type_hints(expected)
        assert value.keys() == hints.keys(), where
        for name, hint in hints.items():
            check(value[name], hint, f"{where}.{name}")
        return
    choices = [each for each in (get_args(expected) or (expected,)) if each is not type(None)]
    if value is None:
        assert type(None) in get_args(expected), where
    elif expected.__class__.__name__ == "UnionType":
        check(value, choices[0], where)
    elif isinstance(value, list):
        for each in value:
            check(each, choices[0], f"{where}[]")
    else:
        assert type(value) is expected, where
