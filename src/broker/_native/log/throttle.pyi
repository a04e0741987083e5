from typing import Self, final

@final
class Throttle:
    rate: int
    def __new__(cls) -> Self: ...
