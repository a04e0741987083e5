"""What is logged of an election that may lose acknowledged records.

How many is known once the members of the old ISR are back: each logs what it truncates.
"""

import logging

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import PartitionState

_log = logging.getLogger(__name__)


def warn(
    image: ClusterImage,
    item: tuple[bytes, int],
    old: PartitionState,
    new: PartitionState,
    known: object,
) -> None:
    """Log an unclean election, and what is known of the ends of the replicas."""
    topic = image.topics.get(item[0])
    _log.warning(
        "unclean election, acknowledged records may be lost: topic=%s partition=%d leader=%d"
        " leader_epoch=%d isr_before=%s elr_before=%s last_known=%s replicas=%s",
        *("(deleted)" if topic is None else topic.name, item[1], new.leader, new.leader_epoch),
        *(old.isr, old.elr, old.last_known, known),
    )
