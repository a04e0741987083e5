"""A part of the broker that lives as long as the process."""


class Service:
    """A part that the process starts, runs and stops; a subclass overrides what it needs.

    Its constructor takes what it uses and changes nothing. `server/services.py` has the order.

    Attributes:
        name: its name in log lines.
        is_essential: whether the process stops when its background work fails. A broker of a
            cluster that goes on without some of it would keep partitions that it does not serve.
    """

    name: str
    is_essential = False

    def start(self) -> None:
        """Begin, after the services that it uses and before the first connection.

        It is not awaited, so that nothing else runs between the starts of two services.

        Raises:
            StorageError: the process ends at once, as if it were killed: to stop would write a
                state that was never read.
        """

    async def run(self) -> None:
        """Work in the background while connections are served; runs until cancelled."""

    async def stop(self) -> None:
        """End, before the services that it uses; `run` has ended."""
