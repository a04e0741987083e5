from libc.stdint cimport int64_t

from broker._native.log.turn cimport Turn


cdef object find_time(list segments, int64_t timestamp, int64_t start, int64_t end, object read,
                      Turn turn)
