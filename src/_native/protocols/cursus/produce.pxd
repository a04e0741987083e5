from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport Permissions
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.protocols.cursus.batch cimport CursusHead, CursusRecord, Text
from broker._native.records.plain_batch cimport PlainBatch
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.unseen_writes cimport UnseenWrites

cdef enum:
    BATCH_MAGIC = 0xBA            # the first byte of a batch
    TEXT_MAX = 255                # bytes of a producer id, event type or metadata, natively
    LEADER_MAX = 264              # bytes of the leader's address: a host name and a port
    ANSWER_SIZE = 512             # 120 of fixed text, 80 of numbers, 80 of an error
    ANSWER_MAX = ANSWER_SIZE + TEXT_MAX + LEADER_MAX

# Cursus's bits of PartitionLog.protocol_flags, which the settings of the topic decide.
cdef enum:
    LOG_HAS_NAMED_PRODUCERS = 1   # the Python handler checks their sequences
    LOG_SPREADS_KEYS = 2          # a key does not determine the partition
    LOG_HAS_STREAMS = 4           # its records are events of streams

# When a batch is acknowledged.
cdef enum Acks:
    ACKS_UNKNOWN
    ACKS_NONE
    ACKS_ONE                      # as durable as the topic asks, on this broker
    ACKS_ALL                      # on all replicas in sync


cdef Acks acks_of(Text acks) noexcept nogil
cdef bint is_plain_text(Text text) noexcept nogil
cdef bint fill_one(PlainBatch* into, CursusRecord* record, Turn turn) noexcept
cdef uint32_t put_answer(
    uint8_t* at, const char* status, int64_t last_offset, CursusHead* head,
    CursusRecord* last, Text leader, const char* error) noexcept nogil
cdef ReplySlot* answer_slot(CursusRecord* last, Text leader) noexcept nogil
cdef void put_failure(ReplySlot* slot, const char* text) noexcept nogil
cdef void wait_for_acks(
    PartitionLog log, ReplySlot* slot, int64_t end_offset, Acks acks,
    UnseenWrites* unseen) noexcept
cdef void put_unacknowledged(
    ReplySlot* slot, UnseenWrites* unseen, PartitionLog log, int64_t end_offset) noexcept
cdef ReplySlot* cursus_produce(
    TopicTable topics, Turn turn, Permissions permissions, UnseenWrites* unseen, Text leader,
    Cursor body) noexcept
