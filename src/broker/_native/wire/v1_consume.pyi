from typing import Self, final

@final
class Reading:
    def __new__(cls) -> Self: ...
