from typing_extensions import disjoint_base

from broker._native.wire.connection import Wait

@disjoint_base
class ParkedFetch(Wait):
    wait_ms: int
