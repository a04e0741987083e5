"""The streams of partitions, as far as an append needs them: versions, and what is not filed yet.

    versions   key -> the version of its stream: a cache, of as many streams as there is memory for
    keys       which keys have surely no stream: once Python has read all keys of the file into it
    recent     key -> the events since the last write of the partition's file of streams

Python fills `versions` before a stream is appended to, from the file and from `recent`, and takes
`recent` to write it. An append changes all of them at once, so the next append finds the version
that this one has reserved, whoever sends it. They are only right in the leader epoch that they were
made in.
"""

from itertools import islice

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.protocols.cursus.stream_filter cimport FilterMemory, KeyFilter

from broker.model import stream_limits

ENDED = INT64_MIN             # no epoch of a log

cdef enum:
    KNOWN_BYTES = 170         # of a version besides its key: bytes, int, the entry of the dict
    RECENT_BYTES = 280        # of a stream in `recent`, likewise, and its list
    EVENT_BYTES = 42          # of an offset: an int, and its place in the list
    FORGOTTEN = 1000          # versions at a time, when others need their memory

cdef int FORESEEN_MAX = stream_limits.STREAMS_LOOKED_UP_PER_STATEMENT


@cython.final
cdef class StreamTables:
    """The streams of all partitions that this broker leads, by log.

    Attributes:
        recent_bytes: what the events take that are in no file yet.
        recent_bytes_max: above it appends wait until some have been written.
        known_bytes: what the versions take that are kept.
        known_bytes_max: above it the oldest are forgotten of the partition that has most.
        filter_memory: of the filters of keys.
        when_unknown: called with a log, when an append waits for a version and no other does.
    """

    def __cinit__(
            self, int64_t recent_bytes_max=INT64_MAX, int64_t known_bytes_max=INT64_MAX,
            int64_t filter_bytes_max=0):
        """Begin without any."""
        self.by_log = {}
        self.recent_bytes_max = recent_bytes_max
        self.known_bytes_max = known_bytes_max
        self.filter_memory = FilterMemory(filter_bytes_max)

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
        heads.lookups = {}
        heads.foreseen = {}
        heads.keys = KeyFilter(self.filter_memory)
        self.by_log[log] = heads
        return heads

    def end(self, PartitionLog log not None):
        """Forget the streams of a log."""
        cdef StreamHeads heads = self.by_log.pop(log, None)
        if heads is not None:
            heads.epoch = ENDED
            self.known_bytes -= heads.known_bytes
            heads.versions = {}
            heads.known_bytes = 0
            heads.keys = KeyFilter(self.filter_memory)
            self.release(heads.take_recent()[1])

    def release(self, int64_t size):
        """Note that events which were taken are in a file, or are not needed any more."""
        self.recent_bytes -= size

    cdef int forget_some(self) except -1:
        """Forget versions until the others have room, those that were known for longest."""
        cdef StreamHeads largest
        while self.known_bytes > self.known_bytes_max:
            largest = max(self.by_log.values(), key=_count_versions)
            if not largest.versions:
                break
            largest.forget(FORGOTTEN)
        return 0


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
        """Keep the version of a stream, as it is in the file; nothing once they have ended."""
        if self.epoch != ENDED:
            self.set_version(key, version)

    def forget_versions(self, Py_ssize_t count):
        """Forget the versions that have been known for longest."""
        self.forget(count)

    cdef int set_version(self, bytes key, object version) except -1:
        if key not in self.versions:
            self.count_known(KNOWN_BYTES + PyBytes_GET_SIZE(key))
        self.versions[key] = version
        return self.tables.forget_some()

    cdef int forget(self, Py_ssize_t count) except -1:
        cdef bytes key
        for key in list(islice(self.versions, count)):
            del self.versions[key]
            self.count_known(-KNOWN_BYTES - PyBytes_GET_SIZE(key))
        return 0

    cdef void count_known(self, int64_t size) noexcept:
        self.known_bytes += size
        self.tables.known_bytes += size

    def first_lookups(self, Py_ssize_t count):
        """Return the lookups that wait (StreamLookup), so many at most; the first came first."""
        return list(islice(self.lookups, count))

    cdef int foresee(self, PartitionLog log, bytes key) except -1:
        """Have a stream looked up that nobody waits for yet, unless too many are."""
        if key in self.foreseen or len(self.foreseen) >= FORESEEN_MAX:
            return 0
        self.foreseen[key] = None
        if len(self.foreseen) == 1 and not self.lookups and self.tables.when_unknown is not None:
            self.tables.when_unknown(log)
        return 0

    def take_foreseen(self):
        """Return the streams that are to be looked up though nobody waits for them yet."""
        taken = self.foreseen
        self.foreseen = {}
        return taken

    def end_lookups(self, list lookups not None):
        """Serve the appends that wait: natively, if their versions are known by now."""
        for lookup in lookups:
            lookup.end()

    def append(self, bytes key not None, version not None, offset not None):
        """Note an event that was appended; nothing once they have ended."""
        if self.epoch != ENDED:
            self.note(key, version, offset)

    def hold(self, int64_t size):
        """Count bytes of something else that is to be filed with the events."""
        self.recent_bytes += size
        self.tables.recent_bytes += size

    cdef void note(self, bytes key, object version, object offset) noexcept:
        # Without memory nothing that is here can be trusted: Python makes it anew from the log.
        try:
            if version == 1:
                self.keys.put(<const uint8_t*>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key))
            self.keep(key, version, offset)
            self.set_version(key, version)
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

    def give_back(self, dict events not None, int64_t size):
        """Keep what was taken and not filed again, before the events since."""
        cdef list before, since
        for key, since in self.recent.items():
            before = events.get(key)
            if before is None:
                events[key] = since
            else:
                before.extend(since[1:])
        self.recent = events
        self.recent_bytes += size
        self.recent_count = sum([len(each) - 1 for each in events.values()])
