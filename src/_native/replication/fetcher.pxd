from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.turn cimport Turn, WatchOwner
from broker._native.replication.replica_table cimport Replica, ReplicaTable
from broker._native.replication.reply_reader cimport ReplyHead, ReplyPartition, ReplyReader
from broker._native.replication.request_writer cimport RequestFields
from broker._native.wire.connection cimport Connection, NativeProtocol, Wait


cdef class ReplyFrames(NativeProtocol):
    cdef ReplicaFetcher fetcher
    cdef uint32_t size_max


cdef class ReplicaFetcher(Wait):
    cdef Turn turn
    cdef WatchOwner owner
    cdef ReplicaTable table
    cdef RequestFields fields             # of the next request
    cdef int32_t wait_ms
    cdef int32_t partition_bytes_max
    cdef int64_t timeout_ms
    cdef int64_t asked                    # requests sent, on all connections
    cdef readonly int32_t in_flight       # of them, without a whole reply
    cdef bint is_session_over             # the leader does not know it any more
    cdef int32_t blocking                 # partitions of the last reply that are not durable yet
    cdef int64_t blocked_ms               # since when there are some
    cdef int64_t checked_ms               # when all logs were looked at
    cdef bint is_reading                  # a reply is partly served
    cdef ReplyReader reader               # of that reply
    cdef int64_t readable_ms              # since when replies are read, after those were durable
    cdef readonly uint64_t replies
    cdef list events
    cdef object on_events
    cdef object on_lost

    cdef int begin(self, Connection connection) except -1
    cdef void lost(self, str reason)
    cdef void notify(self, object kind, object log, int32_t epoch, object first, object second)
    cdef bint serve(self, Connection connection, Cursor frame)
    cdef bint begin_reply(self, Connection connection, Cursor frame)
    cdef bint take_head(self, Connection connection, ReplyHead* head)
    cdef void take_partition(self, ReplyPartition* partition)
    cdef void take_records(self, Replica* replica, ReplyPartition* partition)
    cdef void take_error(self, Replica* replica, ReplyPartition* partition)
    cdef void end_reply(self, Connection connection)
    cdef void block_unsynced(self) noexcept
    cdef void settle(self, Replica* replica)
    cdef void name_or_hold_back(self, Replica* replica)
    cdef void name_held_back(self)
    cdef void settle_all(self)
    cdef void unblock(self, Replica* replica)
    cdef void lose_patience(self)
    cdef void end_blocking(self)
    cdef void fail(self, Replica* replica, object kind, object first, object second)
    cdef void release(self, Replica* replica) noexcept
    cdef void forget_session(self) noexcept
    cdef bint must_ask(self) noexcept
    cdef bint ask(self, Connection connection)
    cdef uint8_t* put_named(self, uint8_t* at, int32_t count) noexcept
    cdef uint8_t* put_forgotten_ones(self, uint8_t* at, int32_t count) noexcept
    cdef void request_turn(self)
