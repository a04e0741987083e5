"""The streams of partitions, as far as an append needs them: versions, and what is not filed yet.

    versions   key -> the version of its stream: a cache, of as many streams as there is memory for
    recent     key -> the events since the last write of the partition's file of streams

Python fills `versions` before a stream is appended to, from the file and from `recent`, and takes
`recent` to write it. An append changes both at once, so the next append finds the version that this
one has reserved, whoever sends it. Both are only right in the leader epoch that they were made in.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from broker._native.log.partition_log cimport PartitionLog

ENDED = INT64_MIN             # no epoch of a log

cdef enum:
    KNOWN_BYTES = 170         # of a version besides its key: bytes, int, the entry of the dict
    RECENT_BYTES = 280        # of a stream in `recent`, likewise, and its list
    EVENT_BYTES = 42          # of an offset: an int, and its place in the list


@cython.final
cdef class StreamTables:
    """The streams of all partitions that this broker leads, by log.

    Attributes:
        recent_bytes: what the events take that are in no file yet.
        recent_bytes_max: above it appends wait until some have been written.
        known_bytes: what the versions take that are kept.
    """

    def __cinit__(self, int64_t recent_bytes_max=INT64_MAX):
        """Begin without any."""
        self.by_log = {}
        self.recent_bytes_max = recent_bytes_max

    cdef StreamHeads find(self, PartitionLog log):
        """Return the streams of a log in its present epoch, or None."""
        cdef StreamHeads heads = self.by_log.get(log)
        return heads if heads is not None and heads.epoch == log.known_epoch else None

    def begin(self, PartitionLog log not None, int64_t epoch):
        """Return the streams of a log in an epoch, in place of those before.

        None is known, and every event is in the file.
        """
        cdef StreamHeads heads = StreamHeads.__new__(StreamHeads)
        self.end(log)
        heads.tables = self
        heads.epoch = epoch
        heads.versions = {}
        heads.recent = {}
        self.by_log[log] = heads
        return heads

    def end(self, PartitionLog log not None):
        """Forget the streams of a log."""
        cdef StreamHeads heads = self.by_log.pop(log, None)
        if heads is not None:
            heads.epoch = ENDED
            heads.forget_versions(len(heads.versions))
            self.release(heads.take_recent()[1])

    def release(self, int64_t size):
        """Note that events which were taken are in a file, or are not needed any more."""
        self.recent_bytes -= size

    def largest(self):
        """Return the streams of the log with the most versions, or None."""
        return max(self.by_log.values(), key=_count_versions, default=None)


def _count_versions(StreamHeads heads not None):
    return len(heads.versions)


@cython.final
cdef class StreamHeads:
    """The streams of one partition.

    Attributes:
        epoch: the leader epoch of its log in which this is so; ENDED: it is not any more.
        versions: of the streams that are known now, by key.
        recent: by key, the version before them and the offsets of the events in no file yet.
        recent_bytes: what `recent` takes.
        recent_count: how many events it has.
    """

    def know(self, bytes key not None, version not None):
        """Keep the version of a stream, as it is in the file."""
        if key not in self.versions:
            self.tables.known_bytes += KNOWN_BYTES + PyBytes_GET_SIZE(key)
        self.versions[key] = version

    def forget_versions(self, Py_ssize_t count):
        """Forget the versions that have been known for longest."""
        cdef bytes key
        for key in list(self.versions)[:count]:
            del self.versions[key]
            self.tables.known_bytes -= KNOWN_BYTES + PyBytes_GET_SIZE(key)

    def append(self, bytes key not None, version not None, offset not None):
        """Note an event that was appended."""
        self.know(key, version)
        self.note(key, version, offset)

    def hold(self, int64_t size):
        """Count bytes of something else that is to be filed with the events."""
        self.recent_bytes += size
        self.tables.recent_bytes += size

    cdef void note(self, bytes key, object version, object offset) noexcept:
        # Without memory nothing that is here can be trusted: Python makes it anew from the log.
        try:
            self.versions[key] = version
            self.keep(key, version, offset)
        except MemoryError:
            self.epoch = ENDED

    cdef int keep(self, bytes key, object version, object offset) except -1:
        cdef list events = self.recent.get(key)
        cdef int64_t size = EVENT_BYTES
        if events is None:
            self.recent[key] = [version - 1, offset]
            size += RECENT_BYTES + PyBytes_GET_SIZE(key)
        else:
            events.append(offset)
        self.recent_count += 1
        self.recent_bytes += size
        self.tables.recent_bytes += size
        return 0

    def take_recent(self):
        """Return `recent` and what it takes, which is to be released, and begin a new one."""
        taken = self.recent, self.recent_bytes
        self.recent = {}
        self.recent_bytes = self.recent_count = 0
        return taken
