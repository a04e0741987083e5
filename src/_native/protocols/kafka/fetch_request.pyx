"""Parses Fetch requests, versions 4-18, and looks up the logs that they name.

A request that is malformed is left to the Python handler, and so is a consumer's that names an
unknown topic or partition. A replica's may name anything: what is unknown or not led here is an
error of its partition. A replica tells its broker epoch from version 15 on; earlier versions are
left to Python, which refuses them: they could be from before a restart of that broker.
"""

from libc.stdint cimport uint8_t, uint32_t
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
from broker._native.messages.fields cimport (
    TOPIC_ID_SIZE, read_count, read_string, read_tag, read_tag_count, read_tags,
)

from broker.model import limits

cdef enum:
    NODES_MAX = 10_000
    VERSION_REPLICA_STATE = 15
    TAG_REPLICA_STATE = 1

assert NODES_MAX == limits.NATIVE_FETCH_PARTITIONS_MAX

cdef Wanted named[NODES_MAX]   # of the last request
cdef bint is_for_replicas      # the last request has something that only a replica's may have


cdef bint read_topic(Cursor* cursor, RequestHead* head, TopicTable topics, PyObject** entry,
                     const uint8_t** topic_id):
    # Reads a topic's name or id and looks it up. False: it is malformed, or no replica's and
    # unknown.
    global is_for_replicas
    cdef const uint8_t* name
    cdef int32_t size = TOPIC_ID_SIZE
    cdef TopicEntry found
    if head.api_version >= VERSION_TOPIC_ID:
        name = cursor_take(cursor, TOPIC_ID_SIZE)
        if name == NULL:
            return False
        found = topics.find_id(name)
        topic_id[0] = name
    else:
        topic_id[0] = NULL
        if not read_string(cursor, head.is_flexible, &name, &size) or name == NULL:
            return False
        found = topics.find_name(name, <size_t>size)
    entry[0] = NULL if found is None else <PyObject*>found
    is_for_replicas = is_for_replicas or found is None
    return found is not None or head.api_version >= VERSION_REPLICA_STATE


cdef bint name_partition(Wanted* wanted, RequestHead* head, PyObject* topic,
                         const uint8_t* topic_id, int32_t partition):
    global is_for_replicas
    cdef PartitionLog log = None if topic == NULL else (<TopicEntry>topic).log_of(partition)
    if log is None and topic != NULL and head.api_version >= VERSION_FOLLOWERS:
        log = (<TopicEntry>topic).copy_of(partition)
    wanted.topic = topic
    wanted.topic_id = topic_id
    wanted.log = NULL if log is None else <PyObject*>log
    wanted.partition = partition
    is_for_replicas = is_for_replicas or log is None
    return log is not None or head.api_version >= VERSION_REPLICA_STATE


cdef bint read_partition(Cursor* cursor, RequestHead* head, PyObject* topic,
                         const uint8_t* topic_id, Wanted* wanted):
    global is_for_replicas
    cdef int32_t partition = 0
    wanted.leader_epoch = wanted.last_epoch = -1
    wanted.log_start = -1
    if cursor_int32(cursor, &partition) != READ_DONE:
        return False
    if head.api_version >= 9 and cursor_int32(cursor, &wanted.leader_epoch) != READ_DONE:
        return False
    if cursor_int64(cursor, &wanted.offset) != READ_DONE:
        return False
    if head.api_version >= 12 and cursor_int32(cursor, &wanted.last_epoch) != READ_DONE:
        return False
    is_for_replicas = is_for_replicas or wanted.last_epoch != -1
    if head.api_version >= 5 and cursor_int64(cursor, &wanted.log_start) != READ_DONE:
        return False
    return (cursor_int32(cursor, &wanted.bytes_max) == READ_DONE
            and read_tags(cursor, head.is_flexible)
            and name_partition(wanted, head, topic, topic_id, partition))


cdef bint read_wanted(Cursor* cursor, RequestHead* head, TopicTable topics,
                      FetchRequest* request):
    cdef int32_t topic_count = 0, count = 0, _i, _j
    cdef PyObject* topic = NULL
    cdef const uint8_t* topic_id = NULL
    if not read_count(cursor, head.is_flexible, &topic_count):
        return False
    for _i in range(topic_count):
        if not read_topic(cursor, head, topics, &topic, &topic_id) or not read_count(
                cursor, head.is_flexible, &count):
            return False
        if count < 1 or count > NODES_MAX - request.wanted:
            return False
        if request.wanted > 0 and topic != NULL and topic == named[request.wanted - 1].topic:
            return False  # twice in a row: the response would merge them
        for _j in range(count):
            if not read_partition(cursor, head, topic, topic_id, &named[request.wanted]):
                return False
            request.wanted += 1
        if not read_tags(cursor, head.is_flexible):
            return False
    return True


cdef bint read_forgotten(Cursor* cursor, RequestHead* head, TopicTable topics,
                         FetchRequest* request):
    cdef int32_t topic_count = 0, count = 0, partition = 0, _i, _j
    cdef PyObject* topic = NULL
    cdef const uint8_t* topic_id = NULL
    if not read_count(cursor, head.is_flexible, &topic_count):
        return False
    for _i in range(topic_count):
        if not read_topic(cursor, head, topics, &topic, &topic_id) or not read_count(
                cursor, head.is_flexible, &count):
            return False
        if count > NODES_MAX - request.wanted - request.forgotten:
            return False
        for _j in range(count):
            if cursor_int32(cursor, &partition) != READ_DONE or not name_partition(
                    &named[request.wanted + request.forgotten], head, topic, topic_id, partition):
                return False
            request.forgotten += 1
        if not read_tags(cursor, head.is_flexible):
            return False
    return True


cdef bint read_replica_state(Cursor* cursor, FetchRequest* request) noexcept:
    # Reads the request's tagged fields: its only ones that matter here are the replica's.
    cdef uint32_t count = 0, tag = 0, _i
    cdef Cursor field
    if not read_tag_count(cursor, &count):
        return False
    for _i in range(count):
        if not read_tag(cursor, &tag, &field):
            return False
        if tag == TAG_REPLICA_STATE and (
                cursor_int32(&field, &request.replica_id) != READ_DONE
                or cursor_int64(&field, &request.replica_epoch) != READ_DONE):
            return False
    return True


cdef bint read_request(RequestHead* head, TopicTable topics, FetchRequest* request):
    """Read a request; return False if it is left to Python."""
    global is_for_replicas
    cdef Cursor cursor = head.body
    cdef int32_t replica = 0
    memset(request, 0, sizeof(FetchRequest))
    request.named = named
    request.epoch = -1
    request.replica_id = -1
    request.replica_epoch = -1
    is_for_replicas = False
    if head.api_version < VERSION_REPLICA_STATE and (
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
    if head.api_version >= VERSION_FOLLOWERS and not read_string(
            &cursor, head.is_flexible, &request.rack, &request.rack_size):
        return False
    if head.api_version < VERSION_REPLICA_STATE:
        return read_tags(&cursor, head.is_flexible) and not is_for_replicas
    return read_replica_state(&cursor, request) and (
        request.replica_id >= 0 or not is_for_replicas)
