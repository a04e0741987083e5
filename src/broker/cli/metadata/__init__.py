"""`broker metadata`: export and import a metadata store, and repair a restored one.

All of it is for a store that no broker uses: that of the configuration, as for `broker start`.
"""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("metadata", ("export", "import", "bump-epochs"), __name__)
