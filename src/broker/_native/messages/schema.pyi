from collections.abc import Iterable
from typing import Self, final

__pyx_capi__: dict[str, object]  # what schema.pxd declares

@final
class Field:
    def __new__(
        cls,
        name: str,
        type: str,  # noqa: A002 - Kafka's word
        *,
        is_nullable: bool = False,
        is_compact: bool = False,
        tag: int = 0,
        default: object = None,
        struct: Struct | None = None,
    ) -> Self: ...

@final
class Struct:
    def __new__(
        cls,
        fields: Iterable[Field],
        tagged: Iterable[Field],
        absent: Iterable[Field],
        *,
        is_flexible: bool,
    ) -> Self: ...

@final
class Program:
    def __new__(cls, title: str, root: Struct) -> Self: ...
