"""What a principal may do with topics, as the native paths know it.

Native code does not decide: it looks up what Python has decided since the last change of an access
control entry, which begins an epoch. A request about anything that is not known to be allowed is
left to its Python handler, which decides, and has the decision kept here if it is that it is
allowed.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport calloc, free

from broker.model import security_limits

cdef enum:
    CAPACITY_MIN = 16

cdef uint32_t TOPICS_MAX = security_limits.PERMITTED_TOPICS_MAX
cdef Py_ssize_t TRANSACTIONAL_IDS_MAX = security_limits.PERMITTED_TRANSACTIONAL_IDS_MAX

READ = MAY_READ
WRITE = MAY_WRITE
DESCRIBE = MAY_DESCRIBE


@cython.final
cdef class PermissionEpoch:
    """Counts the changes of what is allowed."""

    def advance(self):
        """Begin the next epoch: what is known of earlier ones does not count."""
        self.number += 1


@cython.final
cdef class Permissions:
    """What one principal may do, from one address or from any."""

    def __cinit__(self, PermissionEpoch epoch not None, TopicTable topics not None, *,
                  bint is_unlimited=False):
        """Know nothing yet; `is_unlimited`: everything is allowed, always."""
        self.epoch = epoch
        self.topics = topics
        self.is_unlimited = is_unlimited
        self.known_epoch = epoch.number
        self.transactional_ids = set()

    def __dealloc__(self):
        self.forget()

    def __len__(self):
        return self.count

    def allow(self, str topic not None, int bits):
        """Keep until the next epoch that these operations are allowed on a topic."""
        cdef TopicEntry entry = self.topics.find(topic)
        cdef PermittedTopic* slot
        self.follow_epoch()
        if entry is None:
            return
        slot = self.slot_of(<PyObject*>entry) if self.capacity > 0 else NULL
        if slot == NULL or slot.topic == NULL:
            self.make_room()
            slot = self.slot_of(<PyObject*>entry)
            Py_INCREF(entry)
            slot.topic = <PyObject*>entry
            self.count += 1
        slot.bits |= <uint8_t>bits

    def allow_copies(self):
        """Keep until the next epoch that partitions may be copied: the action of a broker."""
        self.follow_epoch()
        self.acts_for_cluster = True

    def allow_transaction(self, str transactional_id not None):
        """Keep until the next epoch that the transactions of a producer may be written."""
        self.follow_epoch()
        if len(self.transactional_ids) >= TRANSACTIONAL_IDS_MAX:
            self.transactional_ids.clear()
        self.transactional_ids.add(transactional_id.encode())

    def knows(self, str topic not None, int bits):
        """Return whether these operations on a topic are known to be allowed."""
        cdef TopicEntry entry = self.topics.find(topic)
        return entry is not None and self.allows(entry, <uint8_t>bits)

    cdef bint allows(self, TopicEntry topic, uint8_t bits) noexcept:
        """Return whether these operations are known to be allowed."""
        if self.is_unlimited:
            return True
        self.follow_epoch()
        return self.capacity > 0 and self.slot_of(<PyObject*>topic).bits & bits == bits

    cdef bint allows_copies(self) noexcept:
        """Return whether partitions may be copied."""
        self.follow_epoch()
        return self.is_unlimited or self.acts_for_cluster

    cdef bint allows_transaction(self, const uint8_t* transactional_id, int32_t size):
        """Return whether a producer's transactions may be written."""
        self.follow_epoch()
        return self.is_unlimited or (
            PyBytes_FromStringAndSize(<const char*>transactional_id, size)
            in self.transactional_ids)

    cdef PermittedTopic* slot_of(self, PyObject* topic) noexcept:
        # Returns the slot of a topic, or the empty one where it would be: half of them are.
        cdef uint32_t slot = <uint32_t>(
            (<uint64_t>topic * <uint64_t>0x9E3779B97F4A7C15) >> 32) & (self.capacity - 1)
        while self.slots[slot].topic != NULL and self.slots[slot].topic != topic:
            slot = (slot + 1) & (self.capacity - 1)
        return &self.slots[slot]

    cdef void follow_epoch(self) noexcept:
        if self.known_epoch != self.epoch.number:
            self.forget()
            self.acts_for_cluster = False
            self.transactional_ids = set()
            self.known_epoch = self.epoch.number

    cdef void forget(self) noexcept:
        cdef PermittedTopic* slots = self.slots
        cdef uint32_t capacity = self.capacity, i
        self.slots = NULL
        self.capacity = self.count = 0
        for i in range(capacity):
            if slots[i].topic != NULL:
                Py_DECREF(<object>slots[i].topic)
        free(slots)

    cdef void make_room(self) except *:
        # Makes an empty slot; above the limit everything is forgotten, and asked for again.
        cdef PermittedTopic* old = self.slots
        cdef PermittedTopic* slots
        cdef uint32_t before = self.capacity, capacity = CAPACITY_MIN, i
        if self.count >= TOPICS_MAX:
            self.forget()
            old = NULL
            before = 0
        while capacity < 2 * (self.count + 1):
            capacity *= 2
        if capacity == self.capacity:
            return
        slots = <PermittedTopic*>calloc(capacity, sizeof(PermittedTopic))
        if slots == NULL:
            raise MemoryError
        self.slots = slots
        self.capacity = capacity
        for i in range(before):
            if old[i].topic != NULL:
                self.slot_of(old[i].topic)[0] = old[i]
        free(old)
