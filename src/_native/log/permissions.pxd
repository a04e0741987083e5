from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from broker._native.log.topic_table cimport TopicEntry, TopicTable


# What a principal may do with a topic; bits.
cdef enum:
    MAY_READ = 1
    MAY_WRITE = 2
    MAY_DESCRIBE = 4


cdef class PermissionEpoch:
    cdef readonly uint64_t number


cdef struct PermittedTopic:
    PyObject* topic           # TopicEntry, owned: another one cannot have its address
    uint8_t bits


cdef class Permissions:
    cdef object __weakref__
    cdef PermissionEpoch epoch
    cdef TopicTable topics
    cdef uint64_t known_epoch             # of what is known
    cdef readonly bint is_unlimited
    cdef PermittedTopic* slots            # open addressing by the topic's address
    cdef uint32_t capacity
    cdef uint32_t count
    cdef bint acts_for_cluster            # may copy partitions, as brokers do
    cdef set transactional_ids            # as bytes: transactions that it may write

    cdef bint allows(self, TopicEntry topic, uint8_t bits) noexcept
    cdef bint allows_copies(self) noexcept
    cdef bint allows_transaction(self, const uint8_t* transactional_id, int32_t size)
    cdef PermittedTopic* slot_of(self, PyObject* topic) noexcept
    cdef void follow_epoch(self) noexcept
    cdef void forget(self) noexcept
    cdef void make_room(self) except *


cdef inline bint permits(Permissions permissions, TopicEntry topic, uint8_t bits) noexcept:
    """Return whether operations on a topic are known to be allowed; None permits everything."""
    return permissions is None or permissions.allows(topic, bits)
