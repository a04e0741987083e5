"""The offsets that OffsetCommit and TxnOffsetCommit commit, and the rows of their responses."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from broker.core import access
from broker.core.groups.commands.offsets import OffsetToCommit
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.topics.lookup import check_exists
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka import errors

if TYPE_CHECKING:
    from broker.codec import bodies


class Offsets:
    """The offsets of a request for existing partitions, and the response as far as it is known."""

    __slots__ = ("_rows", "to_commit", "topics")

    def __init__(self) -> None:
        """Begin without offsets."""
        self.topics: list[bodies.OffsetCommitResponseTopic] = []
        self.to_commit: list[OffsetToCommit] = []
        self._rows: list[bodies.OffsetCommitResponsePartition] = []  # of the response, for each

    def read(
        self,
        wanted: "Iterable[bodies.OffsetCommitRequestTopic | bodies.TxnOffsetCommitRequestTopic]",
        session: Session,
        *,
        by_id: bool = False,
    ) -> Iterator[None]:
        """Read a request, a topic or a partition per step; an unknown partition is refused.

        So is one of a topic that the client may not read.
        """
        for each in wanted:
            rows: list[bodies.OffsetCommitResponsePartition] = []
            self.topics.append(
                {"name": each["name"], "topic_id": each["topic_id"], "partitions": rows}
            )
            yield
            for partition in each["partitions"]:
                index = partition["partition_index"]
                row: bodies.OffsetCommitResponsePartition = {
                    "partition_index": index,
                    "error_code": 0,
                }
                rows.append(row)
                try:
                    topic = (
                        access.topic_of_id(session, Operation.READ, each["topic_id"])
                        if by_id
                        else access.topic_named(session, Operation.READ, each["name"])
                    )
                    check_exists(topic, index)
                except RequestError as error:
                    row["error_code"] = errors.number(error.code)
                else:
                    self.to_commit.append(
                        OffsetToCommit(
                            topic.name,
                            index,
                            partition["committed_offset"],
                            partition["committed_leader_epoch"],
                            partition["committed_metadata"] or "",
                            # (TxnOffsetCommit has none.)
                            cast("int", partition.get("commit_timestamp", -1)),
                        )
                    )
                    self._rows.append(row)
                yield

    @staticmethod
    async def refused(
        wanted: "Iterable[bodies.OffsetCommitRequestTopic | bodies.TxnOffsetCommitRequestTopic]",
        error: RequestError,
    ) -> "list[bodies.OffsetCommitResponseTopic]":
        """Return the topics of a response in which all partitions have the same error, in steps."""
        code = errors.number(error.code)
        topics: list[bodies.OffsetCommitResponseTopic] = [
            {"name": each["name"], "topic_id": each["topic_id"], "partitions": []}
            async for each in in_steps(wanted, NAMES_READ_PER_STEP)
        ]
        named = (
            (topic, partition["partition_index"])
            for topic, each in zip(topics, wanted, strict=True)
            for partition in each["partitions"]
        )
        async for topic, index in in_steps(named, NAMES_READ_PER_STEP):
            topic["partitions"].append({"partition_index": index, "error_code": code})
        return topics

    def answer(self, codes: Iterable[ErrorCode]) -> Iterator[None]:
        """Complete the response with the error of each offset, one per step."""
        for row, code in zip(self._rows, codes, strict=True):
            row["error_code"] = errors.number(code)
            yield
