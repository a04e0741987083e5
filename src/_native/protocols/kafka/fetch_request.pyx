"""Parses Fetch requests, versions 4-18, and looks up the logs that they name.

A request that is malformed, comes from a follower, or names an unknown topic or partition is left
to the Python handler.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memset

from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int8,
    cursor_int32,
    cursor_int64,
    cursor_take,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.topic_table cimport TopicEntry
from broker._native.protocols.kafka.envelope cimport read_count, read_string, read_tags

from broker.model import limits

cdef enum:
    NODES_MAX = 10_000

assert NODES_MAX == limits.NATIVE_FETCH_PARTITIONS_MAX

cdef Wanted named[NODES_MAX]   # of the last request


cdef bint read_topic(Cursor* cursor, RequestHead* head, TopicTable topics, PyObject** entry):
    # Reads a topic's name or id and looks it up. False: it is malformed or unknown.
    cdef const uint8_t* name
    cdef int32_t size = TOPIC_ID_SIZE
    cdef TopicEntry found
    if head.api_version >= VERSION_TOPIC_ID:
        name = cursor_take(cursor, TOPIC_ID_SIZE)
        if name == NULL:
            return False
        found = topics.find_id(name)
    else:
        if not read_string(cursor, head.is_flexible, &name, &size) or name == NULL:
            return False
        found = topics.find_name(name, <size_t>size)
    entry[0] = <PyObject*>found
    return found is not None


cdef bint name_partition(Wanted* wanted, PyObject* topic, int32_t partition):
    cdef PartitionLog log = (<TopicEntry>topic).log_of(partition)
    wanted.topic = topic
    wanted.log = <PyObject*>log
    wanted.partition = partition
    return log is not None


cdef bint read_partition(Cursor* cursor, RequestHead* head, PyObject* topic, Wanted* wanted):
    cdef int32_t partition = 0, last_fetched_epoch = -1
    cdef int64_t log_start = 0
    wanted.leader_epoch = -1
    if cursor_int32(cursor, &partition) != READ_DONE:
        return False
    if head.api_version >= 9 and cursor_int32(cursor, &wanted.leader_epoch) != READ_DONE:
        return False
    if cursor_int64(cursor, &wanted.offset) != READ_DONE:
        return False
    if head.api_version >= 12 and (
            cursor_int32(cursor, &last_fetched_epoch) != READ_DONE or last_fetched_epoch != -1):
        return False
    if head.api_version >= 5 and cursor_int64(cursor, &log_start) != READ_DONE:
        return False
    return (cursor_int32(cursor, &wanted.bytes_max) == READ_DONE
            and read_tags(cursor, head.is_flexible)
            and name_partition(wanted, topic, partition))


cdef bint read_wanted(Cursor* cursor, RequestHead* head, TopicTable topics,
                      FetchRequest* request):
    cdef int32_t topic_count = 0, count = 0, _i, _j
    cdef PyObject* topic
    if not read_count(cursor, head.is_flexible, &topic_count):
        return False
    for _i in range(topic_count):
        if not read_topic(cursor, head, topics, &topic) or not read_count(
                cursor, head.is_flexible, &count):
            return False
        if count < 1 or count > NODES_MAX - request.wanted:
            return False
        if request.wanted > 0 and topic == named[request.wanted - 1].topic:
            return False  # twice in a row: the response would merge them
        for _j in range(count):
            if not read_partition(cursor, head, topic, &named[request.wanted]):
                return False
            request.wanted += 1
        if not read_tags(cursor, head.is_flexible):
            return False
    return True


cdef bint read_forgotten(Cursor* cursor, RequestHead* head, TopicTable topics,
                         FetchRequest* request):
    cdef int32_t topic_count = 0, count = 0, partition = 0, _i, _j
    cdef PyObject* topic
    if not read_count(cursor, head.is_flexible, &topic_count):
        return False
    for _i in range(topic_count):
        if not read_topic(cursor, head, topics, &topic) or not read_count(
                cursor, head.is_flexible, &count):
            return False
        if count > NODES_MAX - request.wanted - request.forgotten:
            return False
        for _j in range(count):
            if cursor_int32(cursor, &partition) != READ_DONE or not name_partition(
                    &named[request.wanted + request.forgotten], topic, partition):
                return False
            request.forgotten += 1
        if not read_tags(cursor, head.is_flexible):
            return False
    return True


cdef bint read_request(RequestHead* head, TopicTable topics, FetchRequest* request):
    """Read a request; return False if it is left to Python."""
    cdef Cursor cursor = head.body
    cdef int32_t replica = 0, size = 0
    cdef const uint8_t* rack
    memset(request, 0, sizeof(FetchRequest))
    request.named = named
    request.epoch = -1
    if head.api_version <= 14 and (
            cursor_int32(&cursor, &replica) != READ_DONE or replica >= 0):
        return False
    if (cursor_int32(&cursor, &request.wait_ms) != READ_DONE
            or cursor_int32(&cursor, &request.bytes_min) != READ_DONE
            or cursor_int32(&cursor, &request.bytes_max) != READ_DONE
            or cursor_int8(&cursor, &request.isolation) != READ_DONE):
        return False
    if head.api_version >= VERSION_SESSION and (
            cursor_int32(&cursor, &request.session_id) != READ_DONE
            or cursor_int32(&cursor, &request.epoch) != READ_DONE):
        return False
    if not read_wanted(&cursor, head, topics, request):
        return False
    if head.api_version >= VERSION_SESSION and not read_forgotten(&cursor, head, topics, request):
        return False
    if head.api_version >= 11 and not read_string(&cursor, head.is_flexible, &rack, &size):
        return False
    return read_tags(&cursor, head.is_flexible)
