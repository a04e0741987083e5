from typing import Self, final

@final
class Replication:
    def __new__(cls) -> Self: ...
