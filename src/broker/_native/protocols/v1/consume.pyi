from typing import Self, final

@final
class ConsumeReader:
    def __new__(cls) -> Self: ...
