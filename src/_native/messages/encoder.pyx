"""Encoding of Kafka messages from dictionaries, by their programs (see schema.pyx).

A field that a dictionary lacks has its default. Fields of other versions are ignored. A name that
no version has, and a value that is not of its field's type, is a ValueError that names the field.
The bytes are written to a growing buffer and become one `bytes` at the end.

A message can be encoded in steps (`Encoding`). The walk is suspended before an element of an array
once a step's weight is used up: each level of the recursion then puts the object that it writes and
its place on a list, innermost first, and returns; the next step takes them off again. It is never
suspended inside a tagged field, whose elements belong to one step. Structs are removed from their
lists once they are written: to free all of a long message at its end would be one long step.
"""

from cpython.bool cimport PyBool_Check
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.dict cimport PyDict_Check, PyDict_Size
from cpython.list cimport PyList_Check, PyList_CheckExact
from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check
from cpython.unicode cimport PyUnicode_Check
from cython cimport final
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from broker._native.kernel.big_endian cimport store_uint64
from broker._native.kernel.growing cimport make_capacity
from broker._native.kernel.varint cimport store_varint
from broker._native.messages.schema cimport (
    ARRAY, BOOL, FLOAT64, INT64, STRING, STRING_SIZE_MAX, STRUCT, UUID, Field, Path, Program, Slot,
    Step, Struct, element_weight, path_enter, path_leave, path_start, path_text, type_of,
)


cdef extern from "Python.h":
    # Borrowed references, which Cython's own declarations would count.
    PyObject* PyDict_GetItemWithError(object mapping, PyObject* key) except? NULL
    PyObject* PySequence_Fast_GET_ITEM(object values, Py_ssize_t i)
    Py_ssize_t PySequence_Fast_GET_SIZE(object values)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1


cdef enum:
    SIZE_MAX = 0x7FFFFFFE      # of bytes and of an array: size + 1 must fit an int32
    FIRST_CAPACITY = 256       # of the buffer a message is encoded into
    VARINT_SIZE_MAX = 5
    UNBOUNDED = 0x7FFFFFFFFFFFFFFF    # the weight of a step that is never suspended

# Of INT8 to INT64.
cdef int64_t[6] INTEGER_MIN = [-0x80, -0x8000, 0, -0x80000000, 0, INT64_MIN]
cdef int64_t[6] INTEGER_MAX = [0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, INT64_MAX]

cdef struct Encoder:
    uint8_t* bytes
    size_t size
    size_t capacity
    bint is_suspended
    int tagged              # how many tagged fields the walk is in
    int64_t step_left       # weight until the walk is suspended
    PyObject* errors        # dict: how many of each error code, other than 0; or NULL
    PyObject* saved         # list: where a suspended walk continues, innermost first; or NULL
    Path path


def encode(Program program not None, value, dict errors=None):
    """Return the bytes of the message whose fields a dictionary has.

    Its error codes, other than 0, are counted in `errors`.

    Raises:
        ValueError: a value is not of its field's type, or no field has such a name.
    """
    cdef Encoder encoder
    begin(&encoder, program, errors)
    try:
        encode_struct(&encoder, program.root, value)
        return PyBytes_FromStringAndSize(<char*>encoder.bytes, <Py_ssize_t>encoder.size)
    finally:
        free(encoder.bytes)


@final
cdef class Encoding:
    """A message that is encoded in steps, which empty its lists of structs.

    The caller does not change the dictionaries before the last step and does not use those lists
    again: their elements become None.
    """

    cdef Encoder encoder
    cdef bint has_begun
    cdef bint is_over       # it has returned the bytes, or has failed
    cdef Program program    # the walk borrows from it
    cdef object value
    cdef dict errors
    cdef list saved

    def __cinit__(self, Program program not None, value, dict errors=None):
        """Prepare to encode a dictionary; its error codes are counted as by `encode`."""
        self.program = program
        self.value = value
        self.errors = errors
        self.saved = []
        begin(&self.encoder, program, errors)
        self.encoder.saved = <PyObject*>self.saved

    def __dealloc__(self):
        free(self.encoder.bytes)

    def step(self, int64_t weight):
        """Continue; return the bytes, or None after array elements of this weight if there are
        more.

        Args:
            weight: of the elements, counted as limits.MESSAGE_WEIGHT_MAX is; more than 0.

        Raises:
            ValueError: a value is not of its field's type, no field has such a name, the last
                step has been made, or the weight is not above 0.
        """
        cdef Encoder* encoder = &self.encoder
        if weight <= 0:
            raise ValueError(f"expected a weight above 0, got {weight}")
        if self.is_over:
            raise ValueError("the last step has been made")
        self.is_over = True    # unless it is suspended below
        encoder.step_left = weight
        encoder.is_suspended = False
        if self.has_begun:
            resume_struct(encoder, self.program.root)
        else:
            self.has_begun = True
            encode_struct(encoder, self.program.root, self.value)
        if encoder.is_suspended:
            self.is_over = False
            return None
        return PyBytes_FromStringAndSize(<char*>encoder.bytes, <Py_ssize_t>encoder.size)


cdef int begin(Encoder* encoder, Program program, dict errors) except -1:
    """Start before the first field, without suspension."""
    encoder.size = 0
    encoder.capacity = FIRST_CAPACITY
    encoder.is_suspended = False
    encoder.tagged = 0
    encoder.step_left = UNBOUNDED
    encoder.errors = NULL if errors is None else <PyObject*>errors
    encoder.saved = NULL
    encoder.bytes = <uint8_t*>malloc(FIRST_CAPACITY)
    if encoder.bytes == NULL:
        raise MemoryError
    path_start(&encoder.path, program)
    return 0


# ---- structs -------------------------------------------------------------------------------------

cdef int encode_struct(Encoder* encoder, Struct struct, object value) except -1:
    if not PyDict_Check(value):
        raise wrong(encoder, "a dictionary", value)
    return put_struct(encoder, struct, <dict>value, struct.slots, 0, False)


cdef int resume_struct(Encoder* encoder, Struct struct) except -1:
    """Continue a struct in which a step was suspended."""
    value, place, known = (<list>encoder.saved).pop()
    return put_struct(encoder, struct, value, struct.slots + <Py_ssize_t>place, known, True)


cdef int put_struct(Encoder* encoder, Struct struct, dict value, const Slot* slot,
                    Py_ssize_t known, bint is_resumed) except -1:
    """Write the fields from a slot on. `is_resumed`: a step was suspended in its value.

    Args:
        known: how many names of the dictionary belong to earlier fields.
    """
    cdef Py_ssize_t found
    cdef PyObject* item
    cdef Step* step = path_enter(&encoder.path)
    while slot < struct.slots_end:
        item = PyDict_GetItemWithError(value, slot.name)
        step.field = slot.field
        found = 1
        if item == NULL:
            item = slot.default
            found = 0
        if is_resumed:
            is_resumed = False
            resume_value(encoder, slot)
        else:
            encode_value(encoder, slot, <object>item)
        if encoder.is_suspended:
            (<list>encoder.saved).append((value, slot - struct.slots, known))
            path_leave(&encoder.path)
            return 0
        known += found
        slot += 1
    if struct.is_flexible:
        known += encode_tagged(encoder, struct, <dict>value)
    if known != PyDict_Size(value):
        check_names(encoder, struct, <dict>value)
    path_leave(&encoder.path)
    return 0


cdef int check_names(Encoder* encoder, Struct struct, dict value) except -1:
    """Refuse a name that no version has; names of other versions are ignored."""
    encoder.path.here.field = NULL
    for name in value:
        if name not in struct.template:
            raise wrong(encoder, f"one of {', '.join(struct.template)}", name)
    return 0


cdef Py_ssize_t encode_tagged(Encoder* encoder, Struct struct, dict value) except -1:
    """Write the tagged fields; return how many of their names the dictionary has."""
    cdef size_t count_at = encoder.size
    cdef size_t size_at
    cdef Py_ssize_t known = 0
    cdef uint8_t count = 0
    cdef Field field
    cdef PyObject* found
    put_integer(encoder, 0, 1)
    encoder.tagged += 1
    for field in struct.tagged:
        found = PyDict_GetItemWithError(value, field.slot.name)
        if found == NULL:
            continue
        known += 1
        item = <object>found
        if is_default(field, item):
            continue
        count += 1
        encoder.path.here.field = field.slot.field
        put_varint(encoder, field.tag)
        size_at = encoder.size
        if field.slot.kind == STRUCT and field.slot.is_nullable and item is None:
            put_varint(encoder, 0)
        else:
            encode_value(encoder, &field.slot, item)
        insert_size(encoder, size_at)
    encoder.tagged -= 1
    encoder.bytes[count_at] = count
    return known


cdef int insert_size(Encoder* encoder, size_t size_at) except -1:
    """Insert the size of the bytes since size_at before them, as a varint."""
    cdef uint8_t[VARINT_SIZE_MAX] varint
    cdef size_t size = encoder.size - size_at
    cdef size_t varint_size = <size_t>(store_varint(varint, size) - varint)
    reserve(encoder, varint_size)
    memmove(encoder.bytes + size_at + varint_size, encoder.bytes + size_at, size)
    memcpy(encoder.bytes + size_at, varint, varint_size)
    encoder.size += varint_size
    return 0


cdef bint is_default(Field field, object value) except -1:
    if value is None or field.default is None:
        return value is field.default
    if field.slot.kind == STRUCT and PyDict_Check(value):
        return is_default_struct(field.struct, <dict>value)
    return value == field.default


cdef bint is_default_struct(Struct struct, dict value) except -1:
    cdef Field field
    for field in struct.fields + struct.tagged:
        if field.name in value and not is_default(field, value[field.name]):
            return False
    return True


# ---- values --------------------------------------------------------------------------------------

cdef int encode_value(Encoder* encoder, const Slot* slot, object value) except -1:
    cdef int kind = slot.kind
    if kind <= INT64:
        return encode_integer(encoder, slot, value)
    if kind == STRUCT:
        return encode_nested(encoder, slot, value)
    if kind <= BOOL:
        return encode_fixed(encoder, slot, value)
    if value is None and slot.is_nullable:
        return put_size(encoder, slot, -1)
    if kind == STRING:
        return encode_string(encoder, slot, value)
    if kind == ARRAY:
        return encode_array(encoder, slot, value)
    return encode_bytes(encoder, slot, value)


cdef int encode_integer(Encoder* encoder, const Slot* slot, object value) except -1:
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_Check(value):
        raise wrong(encoder, type_of(slot), value)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < INTEGER_MIN[slot.kind] or number > INTEGER_MAX[slot.kind]:
        raise wrong(encoder, type_of(slot), value)
    if slot.is_error and number != 0 and encoder.errors != NULL:
        (<dict>encoder.errors)[number] = (<dict>encoder.errors).get(number, 0) + 1
    return put_integer(encoder, number, <int>slot.size_min)


cdef int encode_fixed(Encoder* encoder, const Slot* slot, object value) except -1:
    cdef double number
    cdef uint64_t word
    if slot.kind == BOOL and PyBool_Check(value):
        return put_integer(encoder, value is True, 1)
    if slot.kind == UUID and PyBytes_Check(value) and PyBytes_GET_SIZE(value) == 16:
        return put_bytes(encoder, PyBytes_AS_STRING(value), 16)
    if slot.kind == FLOAT64 and isinstance(value, (float, int)):
        number = value
        memcpy(&word, &number, 8)
        return put_integer(encoder, <int64_t>word, 8)
    raise wrong(encoder, "16 bytes of uuid" if slot.kind == UUID else type_of(slot), value)


cdef int encode_string(Encoder* encoder, const Slot* slot, object value) except -1:
    cdef Py_ssize_t size = 0
    cdef const char* bytes
    if not PyUnicode_Check(value):
        raise wrong(encoder, "string", value)
    try:
        bytes = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError:
        raise wrong(encoder, "a string that UTF-8 can encode", value) from None
    put_size(encoder, slot, size)
    return put_bytes(encoder, bytes, <size_t>size)


cdef int encode_bytes(Encoder* encoder, const Slot* slot, object value) except -1:
    cdef Py_buffer view
    if PyBytes_Check(value):
        put_size(encoder, slot, PyBytes_GET_SIZE(value))
        return put_bytes(encoder, PyBytes_AS_STRING(value), <size_t>PyBytes_GET_SIZE(value))
    if not isinstance(value, (bytearray, memoryview)):
        raise wrong(encoder, type_of(slot), value)
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        put_size(encoder, slot, view.len)
        return put_bytes(encoder, view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


cdef int encode_array(Encoder* encoder, const Slot* slot, object value) except -1:
    cdef Py_ssize_t size
    if not PyList_Check(value) and not PyTuple_Check(value):
        raise wrong(encoder, "a list", value)
    size = PySequence_Fast_GET_SIZE(value)
    put_size(encoder, slot, size)
    return put_elements(encoder, slot, value, size, 0, False)


cdef int put_elements(Encoder* encoder, const Slot* slot, object values, Py_ssize_t size,
                      Py_ssize_t i, bint is_resumed) except -1:
    """Write the elements from a place on. `is_resumed`: a step was suspended in that element."""
    cdef const Slot* element = slot.element
    cdef Step* step = encoder.path.here
    cdef int64_t weight = <int64_t>element_weight(element)
    while i < size:
        if PySequence_Fast_GET_SIZE(values) != size:
            raise wrong(encoder, "a list that stays as it is", values)
        step.index = i
        if is_resumed:
            is_resumed = False
            resume_struct(encoder, <Struct>element.struct)
        elif encoder.step_left <= 0 and encoder.tagged == 0:
            encoder.is_suspended = True
        else:
            encoder.step_left -= weight
            encode_value(encoder, element, <object>PySequence_Fast_GET_ITEM(values, i))
        if encoder.is_suspended:
            (<list>encoder.saved).append((values, size, i))
            break
        if encoder.saved != NULL and element.kind == STRUCT and PyList_CheckExact(values):
            (<list>values)[i] = None
        i += 1
    step.index = -1
    return 0


cdef int resume_value(Encoder* encoder, const Slot* slot) except -1:
    """Continue an array or a struct in which a step was suspended."""
    if slot.kind == STRUCT:
        return resume_struct(encoder, <Struct>slot.struct)
    values, size, i = (<list>encoder.saved).pop()
    return put_elements(encoder, slot, values, size, i, len(<list>encoder.saved) > 0)


cdef int encode_nested(Encoder* encoder, const Slot* slot, object value) except -1:
    if slot.is_nullable:
        put_integer(encoder, -1 if value is None else 1, 1)
        if value is None:
            return 0
    return encode_struct(encoder, <Struct>slot.struct, value)


# ---- writing -------------------------------------------------------------------------------------

cdef int put_size(Encoder* encoder, const Slot* slot, Py_ssize_t size) except -1:
    """Write a length or count, or -1 for null."""
    if size > (STRING_SIZE_MAX if slot.kind == STRING else SIZE_MAX):
        raise wrong(encoder, f"a shorter {type_of(slot)}", size)
    if slot.is_compact:
        return put_varint(encoder, <uint32_t>(size + 1))
    return put_integer(encoder, size, 2 if slot.kind == STRING else 4)


cdef inline int put_integer(Encoder* encoder, int64_t value, int size) except -1:
    """Write the low `size` bytes of an integer, big-endian."""
    # Always stores eight bytes, of which the first `size` count: one byte swap and one store.
    store_uint64(reserve(encoder, 8), <uint64_t>value << (64 - 8 * size))
    encoder.size += size
    return 0


cdef inline int put_bytes(Encoder* encoder, const void* bytes, size_t size) except -1:
    memcpy(reserve(encoder, size), bytes, size)
    encoder.size += size
    return 0


cdef inline int put_varint(Encoder* encoder, uint32_t value) except -1:
    cdef uint8_t* place = reserve(encoder, VARINT_SIZE_MAX)
    encoder.size += store_varint(place, value) - place
    return 0


cdef inline uint8_t* reserve(Encoder* encoder, size_t size) except NULL:
    """Return where the next `size` bytes go; the caller adds those it writes to the size."""
    if encoder.capacity - encoder.size < size:
        grow(encoder, size)
    return encoder.bytes + encoder.size


cdef int grow(Encoder* encoder, size_t size) except -1:
    if not make_capacity(<void**>&encoder.bytes, &encoder.capacity, encoder.size + size):
        raise MemoryError
    return 0


cdef wrong(Encoder* encoder, str expected, object found):
    return ValueError(f"{path_text(&encoder.path)}: expected {expected}, found {found!r:.80}")
