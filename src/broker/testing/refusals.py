"""Responses with an error code, made from any request by the schemas of both.

An error is answered where the response has a place for it, nearest to its root: in its own error
code, else in that of each topic, group or resource, else of each partition. A fetch is answered in
its partitions: the error code of a whole fetch is about its session.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from broker.codec import schema
from broker.codec.schema import Definition
from broker.testing.rules import Place

Fields = dict[str, Any]

FETCH: Final = 1
METADATA: Final = 3
_CODE: Final = "error_code"
_CODES: Final = (_CODE, "partition_error_code")  # the second: of AddPartitionsToTxn, before v4
_TOPICS: Final = ("topics", "topic_data", "responses")
_PARTITIONS: Final = ("partitions", "partition_data", "partition_responses")
# What one thing is called in requests and responses.
_SAME: Final = (
    ("name", "topic", "topic_name"),
    ("partition_index", "index", "partition", "partitions"),
    ("group_id", "groups", "groups_names", "key"),
    ("transactional_id", "transactional_ids"),
)
NameOf = Callable[[bytes], str]  # of a topic's id; empty: there is no such topic


def has_partitions(api_key: int) -> bool:
    """Whether errors can be answered to a topic or partition of an API's requests."""
    if api_key == METADATA:
        return True
    return any(
        topics.name in _TOPICS and any(each.name in _PARTITIONS for each in topics.fields)
        for topics in schema.request(api_key).fields
    )


def places(request: Fields, name_of: NameOf) -> Iterator[Place]:
    """Yield the topics and partitions that a request names."""
    for topic in _listed(request, _TOPICS):
        if not isinstance(topic, dict):
            continue
        name = _topic_name(topic, name_of)
        partitions = _listed(topic, _PARTITIONS)
        yield from ((name, _number(each)) for each in partitions)
        if not partitions:
            yield name, None


def split(
    request: Fields, is_hit: Callable[[Place], bool], name_of: NameOf
) -> tuple[Fields, Fields]:
    """Return the parts of a request that are hit, and the others."""
    key = _list_name(request, _TOPICS)
    hit_topics: list[Fields] = []
    other_topics: list[Fields] = []
    for topic in request[key]:
        name = _topic_name(topic, name_of)
        inner = _list_name(topic, _PARTITIONS)
        parts: tuple[list[Any], list[Any]] = ([], [])
        for each in topic[inner]:
            parts[not is_hit((name, _number(each)))].append(each)
        for topics, part in zip((hit_topics, other_topics), parts, strict=True):
            if part:
                topics.append({**topic, inner: part})
    return {**request, key: hit_topics}, {**request, key: other_topics}


def merged(served: Fields, refused: Fields) -> Fields:
    """Return a response with the topics of both."""
    key = _list_name(served, _TOPICS)
    topics = list(served[key])
    for topic in refused[key]:
        inner = _list_name(topic, _PARTITIONS)
        same = [each for each in topics if _identity(each) == _identity(topic)]
        if same:
            same[0][inner] = [*same[0][inner], *topic[inner]]
        else:
            topics.append(topic)
    return {**served, key: topics}


def rewritten(
    response: Fields, is_hit: Callable[[Place], bool], code: int, *, is_whole: bool
) -> Fields:
    """Return a served response with the error code in its topics or partitions that are hit."""
    for topic in _listed(response, _TOPICS):
        name = str(topic.get("name") or "")
        if is_whole and is_hit((name, None)):
            topic[_CODE] = code
        elif not is_whole:
            for each in _listed(topic, _PARTITIONS):
                if is_hit((name, _number(each))):
                    each[_CODE] = code
    return response


def refusal(api_key: int, version: int, request: Fields, code: int) -> Fields | None:
    """Return the response with an error for all that a request wants; None: it has no place."""
    definitions = schema.response(api_key).fields
    return _answer(definitions, version, request, code, skips=api_key == FETCH)


def _answer(
    definitions: Sequence[Definition],
    version: int,
    wanted: Mapping[str, Any],
    code: int,
    *,
    skips: bool = False,
) -> Fields | None:
    present = [each for each in definitions if version in each.versions]
    answer = {
        each.name: value
        for each in present
        if not each.fields and (value := _value(each.name, wanted)) is not None
    }
    own = next((each.name for each in present if each.name in _CODES), None)
    if own is not None and not skips:
        answer[own] = code
        return answer
    for each in present:
        if each.fields and each.type.startswith("[]"):
            asked = _asked(wanted)
            found = [_answer(each.fields, version, one, code) for one in asked]
            whole = [one for one in found if one is not None]
            if whole and len(whole) == len(found):
                answer[each.name] = whole
                return answer
    return None


def _asked(wanted: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what a request lists: objects as they are, names as the field of their list."""
    for name, value in wanted.items():
        if isinstance(value, list) and value:
            yield from (each if isinstance(each, dict) else {name: each} for each in value)
            return


def _value(name: str, wanted: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a field has any type
    """Return a scalar field of a request by the name that a response has for it."""
    for names in ((name,), *(each for each in _SAME if name in each)):
        for each in names:
            value = wanted.get(each)
            if value is not None and not isinstance(value, (list, dict)):
                return value
    return None


def _listed(fields: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    return next((fields[each] for each in names if isinstance(fields.get(each), list)), [])


def _list_name(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    return next(each for each in names if isinstance(fields.get(each), list))


def _topic_name(topic: Mapping[str, Any], name_of: NameOf) -> str:
    name = topic.get("name") or topic.get("topic")
    return str(name) if name else name_of(topic.get("topic_id") or b"")


def _identity(topic: Mapping[str, Any]) -> tuple[object, object]:
    return topic.get("name") or topic.get("topic"), topic.get("topic_id")


def _number(partition: object) -> int | None:
    if isinstance(partition, int):
        return partition
    assert isinstance(partition, dict)
    return next((partition[each] for each in _SAME[1] if each in partition), None)
