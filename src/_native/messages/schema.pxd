from cpython.object cimport PyObject
from libc.stdint cimport uint32_t


cdef enum:
    STRING_SIZE_MAX = 32767    # Kafka's own, compact or not
    DEPTH_MAX = 12             # structs within structs; Kafka's deepest message has 6
    ELEMENT_WEIGHT = 4         # of an array's element, a struct's fields not counted
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


# What a walk needs of a field, without reference counting: its Field owns the objects and is held
# by its Struct or array. A Struct has the slots of its fields in one array.
cdef struct Slot:
    int kind
    bint is_nullable
    bint is_compact
    bint is_error           # an error code, which the encoding of responses counts
    size_t size_min         # the fewest bytes of a value; its size if it is fixed
    PyObject* field
    PyObject* name
    PyObject* default       # for an array or a struct: an empty one that is never returned
    PyObject* struct        # of a struct or an array of them
    const Slot* element     # of ARRAY


cdef class Field:
    cdef str name
    cdef str type
    cdef uint32_t tag
    cdef object default
    cdef Struct struct
    cdef Field element
    cdef Slot slot

    cdef size_t _size_min(self)


cdef class Struct:
    cdef tuple fields       # of this version, in the order of the wire
    cdef Slot* slots        # of these fields
    cdef Slot* slots_end
    cdef tuple tagged       # of this version, by ascending tag
    cdef tuple unshared     # absent or tagged fields with a mutable default
    cdef bint has_unshared
    cdef bint is_flexible
    cdef dict template      # every field of any version with its default, copied for each value
    cdef size_t size_min
    cdef size_t weight      # as an element of an array: limits.MESSAGE_WEIGHT_MAX
    cdef int depth

    cdef int _set_slots(self) except -1


cdef inline str type_of(const Slot* slot):
    return (<Field>slot.field).type


cdef inline size_t element_weight(const Slot* element) noexcept:
    """Return the weight of an array's element (limits.MESSAGE_WEIGHT_MAX)."""
    return (<Struct>element.struct).weight if element.kind == STRUCT else ELEMENT_WEIGHT


cdef class Program:
    cdef str title
    cdef Struct root


# The position of a walk in the message, for errors: it costs one store per field.

cdef struct Step:
    PyObject* field         # borrowed from the program, which outlives the walk
    Py_ssize_t index        # in an array, or -1

cdef struct Path:
    PyObject* title
    Step* here
    Step[DEPTH_MAX + 1] steps    # the first is before the message

cdef str path_text(Path* path)


cdef inline void path_start(Path* path, Program program) noexcept:
    path.title = <PyObject*>program.title
    path.here = path.steps


cdef inline Step* path_enter(Path* path) noexcept:
    """Enter a struct; the caller sets the field of the returned step."""
    path.here += 1
    path.here.field = NULL
    path.here.index = -1
    return path.here


cdef inline void path_leave(Path* path) noexcept:
    path.here -= 1
