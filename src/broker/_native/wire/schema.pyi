from collections.abc import Iterable
from typing import final

__pyx_capi__: dict[str, object]  # what schema.pxd declares

@final
class Field:
    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 - Kafka's word
        *,
        is_nullable: bool = False,
        is_compact: bool = False,
        tag: int = 0,
        default: object = None,
        struct: Struct | None = None,
    ) -> None: ...

@final
class Struct:
    def __init__(
        self,
        fields: Iterable[Field],
        tagged: Iterable[Field],
        absent: Iterable[Field],
        *,
        is_flexible: bool,
    ) -> None: ...

@final
class Program:
    def __init__(self, title: str, root: Struct) -> None: ...
