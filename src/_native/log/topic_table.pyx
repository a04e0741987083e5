"""Maps a topic name or id to its partitions' logs, without making a Python object of the name.

Both maps use open addressing and are rebuilt when they are half full, or when a topic is removed.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.log.partition_log cimport PartitionLog
from broker._native.messages.fields cimport TOPIC_ID_SIZE

cdef enum:
    CAPACITY_MIN = 64


cdef uint64_t last_request_mark = 0


cdef uint64_t new_request_mark() noexcept:
    """Return a new mark, set on a request's topics and logs to detect any that is named twice."""
    global last_request_mark
    last_request_mark += 1
    return last_request_mark


@cython.final
cdef class TopicEntry:
    """A topic's name, id and logs."""

    def __cinit__(self, str name, bytes topic_id, list logs, dict followed):
        self.name = name
        self.name_bytes = name.encode()
        self.topic_id = topic_id
        self.logs = logs
        self.followed = followed

    cdef PartitionLog log_of(self, int32_t partition):
        """Return the log of a partition, or None."""
        if partition < 0 or partition >= PyList_GET_SIZE(self.logs):
            return None
        return <PartitionLog>PyList_GET_ITEM(self.logs, partition)

    cdef PartitionLog copy_of(self, int32_t partition):
        """Return the log of a partition that this broker follows, or None."""
        return <PartitionLog>self.followed.get(partition) if self.followed else None


@cython.final
cdef class TopicTable:
    """All topics that this broker serves."""

    def __cinit__(self):
        self.entries = {}
        self.racks = {}
        self.rehash()

    def __dealloc__(self):
        free(self.by_name)
        free(self.by_id)

    def add(self, str name, bytes topic_id, list logs, dict followed=None):
        """Add a topic, or replace the one of that name; `followed` are logs that may change."""
        if len(topic_id) != TOPIC_ID_SIZE:
            raise ValueError(f"topic id of {len(topic_id)} bytes, expected {TOPIC_ID_SIZE}")
        cdef TopicEntry entry = self.entries.get(name)
        cdef bint is_new = entry is None
        if not is_new and entry.topic_id == topic_id:
            entry.logs = logs  # whoever holds the entry gets the new partitions
            entry.followed = followed
            return
        entry = TopicEntry(name, topic_id, logs, followed)
        self.entries[name] = entry
        if is_new and 2 * <uint32_t>len(self.entries) <= self.capacity:
            self.place(entry)
        else:
            self.rehash()

    def remove(self, str name):
        """Remove a topic; KeyError when it is unknown."""
        del self.entries[name]
        self.rehash()

    def find(self, name_or_id):
        """Return the TopicEntry of a name (str) or an id (bytes), or None."""
        if isinstance(name_or_id, str):
            name = (<str>name_or_id).encode()
            return self.find_name(<const uint8_t*>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        if len(name_or_id) != TOPIC_ID_SIZE:
            return None
        return self.find_id(<const uint8_t*>PyBytes_AS_STRING(name_or_id))

    def __len__(self):
        return len(self.entries)

    cdef void rehash(self) except *:
        cdef uint32_t capacity = CAPACITY_MIN
        cdef TopicEntry entry
        cdef PyObject** by_name
        cdef PyObject** by_id
        while capacity < 2 * len(self.entries):
            capacity *= 2
        by_name = <PyObject**>calloc(capacity, sizeof(PyObject*))
        by_id = <PyObject**>calloc(capacity, sizeof(PyObject*))
        if by_name == NULL or by_id == NULL:
            free(by_name)
            free(by_id)
            raise MemoryError
        free(self.by_name)
        free(self.by_id)
        self.by_name = by_name
        self.by_id = by_id
        self.capacity = capacity
        for entry in self.entries.values():
            self.place(entry)

    cdef void place(self, TopicEntry entry) noexcept:
        # There is an empty slot: at most half of them are used.
        cdef uint32_t slot = crc32c_extend(
            0, <const uint8_t*>PyBytes_AS_STRING(entry.name_bytes),
            PyBytes_GET_SIZE(entry.name_bytes)) & (self.capacity - 1)
        while self.by_name[slot] != NULL:
            slot = (slot + 1) & (self.capacity - 1)
        self.by_name[slot] = <PyObject*>entry
        slot = crc32c_extend(0, <const uint8_t*>PyBytes_AS_STRING(entry.topic_id),
                             TOPIC_ID_SIZE) & (self.capacity - 1)
        while self.by_id[slot] != NULL:
            slot = (slot + 1) & (self.capacity - 1)
        self.by_id[slot] = <PyObject*>entry

    cdef TopicEntry find_name(self, const uint8_t* name, size_t size):
        """Return the topic of a name, or None."""
        cdef uint32_t slot = crc32c_extend(0, name, size) & (self.capacity - 1)
        cdef TopicEntry entry
        while self.by_name[slot] != NULL:
            entry = <TopicEntry>self.by_name[slot]
            if <size_t>PyBytes_GET_SIZE(entry.name_bytes) == size and memcmp(
                    PyBytes_AS_STRING(entry.name_bytes), name, size) == 0:
                return entry
            slot = (slot + 1) & (self.capacity - 1)
        return None

    cdef TopicEntry find_id(self, const uint8_t* topic_id):
        """Return the topic of an id of 16 bytes, or None."""
        cdef uint32_t slot = crc32c_extend(0, topic_id, TOPIC_ID_SIZE) & (self.capacity - 1)
        cdef TopicEntry entry
        while self.by_id[slot] != NULL:
            entry = <TopicEntry>self.by_id[slot]
            if memcmp(PyBytes_AS_STRING(entry.topic_id), topic_id, TOPIC_ID_SIZE) == 0:
                return entry
            slot = (slot + 1) & (self.capacity - 1)
        return None
