from cpython.object cimport PyObject
from libc.stdint cimport uint32_t


cdef enum:
    STRING_SIZE_MAX = 32767    # Kafka's own, compact or not
    DEPTH_MAX = 12             # structs within structs; Kafka's deepest message has 6
    TAGGED_MAX = 127           # tagged fields of a struct: their count is one byte of varint

cdef enum:    # how a value is written
    # Integers first, then what else has a fixed size.
    INT8
    INT16
    UINT16
    INT32
    UINT32
    INT64
    FLOAT64
    UUID
    BOOL
    STRING
    BYTES
    ARRAY
    STRUCT


cdef class Field:
    cdef str name
    cdef str type
    cdef int kind
    cdef bint is_nullable
    cdef bint is_compact
    cdef uint32_t tag
    cdef object default     # for an array or a struct an empty one of our own, never handed out
    cdef Struct struct      # of STRUCT
    cdef Field element      # of ARRAY
    cdef size_t size_min    # the fewest bytes a value takes; of a fixed size: all

    cdef size_t _size_min(self)


cdef class Struct:
    cdef tuple fields       # of this version, in the order of the wire
    cdef tuple tagged       # of this version, by ascending tag
    cdef tuple unshared     # absent or tagged fields whose default must be made anew each time
    cdef bint is_flexible
    cdef dict template      # every field of any version with its default, copied for each value
    cdef size_t size_min
    cdef int depth


cdef class Program:
    cdef str title
    cdef Struct root


# Where in the message a walk is: kept at the cost of two stores a field, so that a failure can say.

cdef struct Step:
    PyObject* field         # borrowed from the program, which outlives the walk
    Py_ssize_t index        # in an array, or -1

cdef struct Path:
    PyObject* title
    int depth
    Step[DEPTH_MAX] steps

cdef str path_text(Path* path)


cdef inline void path_start(Path* path, Program program) noexcept:
    path.title = <PyObject*>program.title
    path.depth = 0


cdef inline void path_enter(Path* path) noexcept:
    path.steps[path.depth].field = NULL
    path.depth += 1


cdef inline void path_at(Path* path, PyObject* field) noexcept:
    path.steps[path.depth - 1].field = field
    path.steps[path.depth - 1].index = -1
