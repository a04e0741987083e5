from broker._native.wire.connection import Wait

class ParkedFetch(Wait):
    wait_ms: int
