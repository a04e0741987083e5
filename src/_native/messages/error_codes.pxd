# The numbers of Kafka's errors that native code sends: those of src/broker/model/errors.py, by the
# names of broker.model.errors.ErrorCode. tests/unit/protocols/kafka/test_errors.py compares both.

cdef enum:
    ERROR_OFFSET_OUT_OF_RANGE = 1
    ERROR_UNKNOWN_TOPIC_OR_PARTITION = 3
    ERROR_NOT_LEADER_OR_FOLLOWER = 6
    ERROR_NOT_ENOUGH_REPLICAS = 19
    ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ERROR_KAFKA_STORAGE_ERROR = 56
    ERROR_FETCH_SESSION_ID_NOT_FOUND = 70
    ERROR_INVALID_FETCH_SESSION_EPOCH = 71
    ERROR_FENCED_LEADER_EPOCH = 74
    ERROR_UNKNOWN_LEADER_EPOCH = 75
    ERROR_UNSUPPORTED_COMPRESSION_TYPE = 76
    ERROR_UNKNOWN_TOPIC_ID = 100
    ERROR_FETCH_SESSION_TOPIC_ID_ERROR = 106
