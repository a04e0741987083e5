"""Decoding of Kafka messages to dictionaries, by their programs (see schema.pyx).

A dictionary has every field of the message; fields that its version lacks have their defaults.
Nothing is allocated for a length or count before the bytes that it announces are known to be there,
every read goes through the cursor, and every error is a CodecError that names its position.

The garbage collector is disabled while a message is decoded. Thousands of new containers would
trigger it again and again, for objects that cannot be garbage yet; that took half the time of a
large Metadata response. It still counts them, and runs once afterwards if they survive.

A message can be decoded in steps (`Decoding`). The walk is suspended before an element of an array
once a step's weight is used up: each level of the recursion then puts the object that it fills and
its place on a list, innermost first, and returns; the next step takes them off again. It is never
suspended inside a tagged field, whose elements belong to one step.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker._native.kernel.cursor cimport (
    READ_DONE, READ_OVERLONG, Cursor, ReadStatus, cursor_int8, cursor_int16, cursor_int32,
    cursor_take, cursor_unsigned_varint, load_int16, load_int32, load_int64, load_uint16,
    load_uint32, load_uint64,
)
from broker._native.messages.schema cimport (
    ARRAY, BOOL, BYTES, ELEMENT_WEIGHT, INT8, INT16, INT32, INT64, STRING, STRING_SIZE_MAX, STRUCT,
    UINT16, UINT32, UUID, Field, Path, Program, Slot, Step, Struct, element_weight, path_enter,
    path_leave, path_start, path_text, type_of,
)

from broker.model import limits
from broker.model.errors import Corrupt, LimitExceeded, Truncated


cdef extern from "Python.h":
    dict PyDict_Copy(PyObject* mapping)
    int PyDict_SetItem(dict mapping, PyObject* key, object value) except -1
    bint PyGC_Disable()    # returns whether it was enabled
    bint PyGC_Enable()


_WEIGHT_MAX = limits.MESSAGE_WEIGHT_MAX

cdef enum:
    UNBOUNDED = 0x7FFFFFFFFFFFFFFF    # the weight of a step that is never suspended

cdef struct Decoder:
    Cursor cursor
    bint is_gc_paused
    bint is_suspended
    int tagged              # how many tagged fields the walk is in
    int64_t step_left       # weight until the walk is suspended
    PyObject* saved         # list: where a suspended walk continues, innermost first; or NULL
    PyObject* views         # memoryview of all bytes, if fields shall be views; else NULL
    const uint8_t* start
    size_t weight_max
    size_t weight_left
    Path path


def decode(Program program not None, data, Py_ssize_t offset=0, size_t weight_max=_WEIGHT_MAX, *,
           bint as_views=False):
    """Return the message at an offset of a bytes-like object, and the offset of its end.

    Args:
        program: how to decode it.
        data: the bytes-like object.
        offset: where the message begins, in bytes.
        weight_max: how much its arrays may hold, counted as limits.MESSAGE_WEIGHT_MAX is.
        as_views: fields of bytes are views of the data; else they are copies.

    Raises:
        CodecError: the bytes are not such a message.
    """
    cdef Py_buffer view
    cdef Decoder decoder
    decoder.is_gc_paused = False
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        begin(&decoder, program, &view, offset, weight_max)
        if as_views:
            views = memoryview(data).cast("B")    # slices count bytes, whatever its items
            decoder.views = <PyObject*>views
        decoder.is_gc_paused = PyGC_Disable()
        value = decode_struct(&decoder, program.root)
        resume_gc(&decoder)
        return value, decoder.cursor.next - decoder.start
    except UnicodeDecodeError as error:    # of a string; a handler there would slow down each one
        raise malformed(&decoder, "UTF-8", f"{error.object[:40]!r}") from None
    finally:
        resume_gc(&decoder)
        PyBuffer_Release(&view)


@final
cdef class Decoding:
    """A message that is decoded in steps; bytes after it are ignored.

    The bytes must not change meanwhile, so only `bytes` are accepted.
    """

    cdef Decoder decoder
    cdef Py_buffer view
    cdef bint has_view
    cdef bint has_begun
    cdef bint is_over       # it has returned the message, or has failed
    cdef Program program    # the walk borrows from it
    cdef list saved

    def __cinit__(self, Program program not None, bytes data not None,
                  size_t weight_max=_WEIGHT_MAX):
        """Prepare to decode.

        Args:
            program: how to decode the message.
            data: the message, from the first byte on.
            weight_max: how much its arrays may hold, counted as limits.MESSAGE_WEIGHT_MAX is.
        """
        self.program = program
        self.saved = []
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        begin(&self.decoder, program, &self.view, 0, weight_max)
        self.decoder.saved = <PyObject*>self.saved

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    def step(self, int64_t weight):
        """Continue; return the message, or None after array elements of this weight if there are
        more.

        Args:
            weight: of the elements, counted as limits.MESSAGE_WEIGHT_MAX is; more than 0.

        Raises:
            CodecError: the bytes are not such a message.
            ValueError: the last step has been made, or the weight is not above 0.
        """
        cdef Decoder* decoder = &self.decoder
        if weight <= 0:
            raise ValueError(f"expected a weight above 0, got {weight}")
        if self.is_over:
            raise ValueError("the last step has been made")
        self.is_over = True    # unless it is suspended below
        decoder.step_left = weight
        decoder.is_suspended = False
        decoder.is_gc_paused = PyGC_Disable()
        try:
            if self.has_begun:
                value = resume_struct(decoder, self.program.root)
            else:
                self.has_begun = True
                value = decode_struct(decoder, self.program.root)
        except UnicodeDecodeError as error:
            raise malformed(decoder, "UTF-8", f"{error.object[:40]!r}") from None
        finally:
            resume_gc(decoder)
        if decoder.is_suspended:
            self.is_over = False
            return None
        return value


cdef int begin(Decoder* decoder, Program program, Py_buffer* view, Py_ssize_t offset,
               size_t weight_max) except -1:
    """Start before the first byte, without suspension."""
    decoder.is_gc_paused = decoder.is_suspended = False
    decoder.tagged = 0
    decoder.step_left = UNBOUNDED
    decoder.saved = decoder.views = NULL
    if not 0 <= offset <= view.len:
        raise ValueError(f"offset {offset} in {view.len} bytes")
    decoder.start = <const uint8_t*>view.buf
    decoder.cursor.next = decoder.start + offset
    decoder.cursor.left = <size_t>(view.len - offset)
    decoder.weight_max = decoder.weight_left = weight_max
    path_start(&decoder.path, program)
    return 0


cdef inline void resume_gc(Decoder* decoder) noexcept:
    if decoder.is_gc_paused:
        decoder.is_gc_paused = False
        PyGC_Enable()


# ---- structs -------------------------------------------------------------------------------------

cdef dict decode_struct(Decoder* decoder, Struct struct):
    return fill_struct(decoder, struct, PyDict_Copy(<PyObject*>struct.template), struct.slots,
                       False)


cdef dict resume_struct(Decoder* decoder, Struct struct):
    """Continue a struct in which a step was suspended."""
    value, place = (<list>decoder.saved).pop()
    return fill_struct(decoder, struct, value, struct.slots + <Py_ssize_t>place, True)


cdef dict fill_struct(Decoder* decoder, Struct struct, dict value, const Slot* slot,
                      bint is_resumed):
    """Decode the fields from a slot on. `is_resumed`: a step was suspended in its value.

    When the walk is suspended, the returned value is incomplete.
    """
    cdef Step* step = path_enter(&decoder.path)
    while slot < struct.slots_end:
        step.field = slot.field
        if slot.kind <= BOOL:
            set_item(value, slot, load_fixed(slot.kind, take(decoder, slot.size_min, slot)))
        else:
            if is_resumed:
                item = resume_value(decoder, slot)
                is_resumed = False
            else:
                item = decode_value(decoder, slot)
            if decoder.is_suspended:
                (<list>decoder.saved).append((value, slot - struct.slots))
                path_leave(&decoder.path)
                return value
            set_item(value, slot, item)
        slot += 1
    if struct.has_unshared:
        set_defaults(value, struct)
    if struct.is_flexible:
        decode_tagged(decoder, struct, value)
    path_leave(&decoder.path)
    return value


cdef inline int set_item(dict value, const Slot* slot, object item) except -1:
    # The copied template already has it: most often 0, the error code of success.
    if <PyObject*>item == slot.default:
        return 0
    return PyDict_SetItem(value, slot.name, item)


cdef int decode_tagged(Decoder* decoder, Struct struct, dict value) except -1:
    cdef uint32_t tag, size
    cdef size_t left_after
    cdef Field field
    cdef uint32_t count
    decoder.path.here.field = NULL
    count = take_varint(decoder, "a count of tagged fields")
    decoder.tagged += 1
    while count > 0:
        count -= 1
        tag = take_varint(decoder, "a tag")
        size = take_varint(decoder, "a size of a tagged field")
        if size > decoder.cursor.left:
            raise short_of(decoder, f"{size} bytes of tagged field {tag}")
        left_after = decoder.cursor.left - size
        field = find_tagged(struct, tag)
        if field is None:
            cursor_take(&decoder.cursor, size)
            continue
        decoder.path.here.field = field.slot.field
        # The field may read its own bytes only.
        decoder.cursor.left = size
        PyDict_SetItem(value, field.slot.name, decode_tagged_value(decoder, field))
        if decoder.cursor.left != 0:
            raise malformed(decoder, f"tagged field {tag} in {size} bytes",
                            f"{decoder.cursor.left} too many")
        decoder.cursor.left = left_after
    decoder.tagged -= 1
    return 0


cdef object decode_tagged_value(Decoder* decoder, Field field):
    if field.slot.kind == STRUCT and field.slot.is_nullable:
        if take_varint(decoder, "a mark before a struct") == 0:
            return None
        return decode_struct(decoder, field.struct)
    return decode_value(decoder, &field.slot)


cdef Field find_tagged(Struct struct, uint32_t tag):
    cdef Field field
    for field in struct.tagged:
        if field.tag == tag:
            return field
    return None


cdef int set_defaults(dict value, Struct struct) except -1:
    cdef Field field
    for field in struct.unshared:
        value[field.name] = [] if field.slot.kind == ARRAY else default_struct(field.struct)
    return 0


cdef dict default_struct(Struct struct):
    cdef Field field
    value = struct.template.copy()
    for field in struct.fields:
        if field.slot.kind == ARRAY and field.default is not None:
            value[field.name] = []
        elif field.slot.kind == STRUCT and field.default is not None:
            value[field.name] = default_struct(field.struct)
    set_defaults(value, struct)
    return value


# ---- values --------------------------------------------------------------------------------------

cdef object decode_value(Decoder* decoder, const Slot* slot):
    cdef int kind = slot.kind
    cdef const uint8_t* bytes
    if kind == STRING:
        return decode_string(decoder, slot)
    elif kind == BYTES:
        return decode_bytes(decoder, slot)
    elif kind == ARRAY:
        return decode_array(decoder, slot)
    elif kind == STRUCT:
        return decode_nested(decoder, slot)
    bytes = take(decoder, slot.size_min, slot)
    return load_fixed(kind, bytes)


cdef inline object load_fixed(int kind, const uint8_t* bytes):
    if kind == INT32:
        return load_int32(bytes)
    elif kind == INT16:
        return load_int16(bytes)
    elif kind == INT64:
        return load_int64(bytes)
    elif kind == INT8:
        return <int8_t>bytes[0]
    elif kind == BOOL:
        return bytes[0] != 0
    elif kind == UINT16:
        return load_uint16(bytes)
    elif kind == UINT32:
        return load_uint32(bytes)
    elif kind == UUID:
        return PyBytes_FromStringAndSize(<const char*>bytes, 16)
    return load_float64(bytes)


cdef inline double load_float64(const uint8_t* bytes) noexcept:
    cdef uint64_t word = load_uint64(bytes)
    cdef double value
    memcpy(&value, &word, sizeof(value))
    return value


cdef object decode_string(Decoder* decoder, const Slot* slot):
    cdef int64_t size = take_size(decoder, slot)
    cdef const uint8_t* bytes
    if size < 0:
        return None
    if size > STRING_SIZE_MAX:
        raise malformed(decoder, f"a string of at most {STRING_SIZE_MAX} bytes", str(size))
    bytes = take(decoder, <size_t>size, slot)
    return PyUnicode_DecodeUTF8(<char*>bytes, <Py_ssize_t>size, NULL)


cdef object decode_bytes(Decoder* decoder, const Slot* slot):
    cdef const uint8_t* bytes
    cdef int64_t size = take_size(decoder, slot)
    if size < 0:
        return None
    bytes = take(decoder, <size_t>size, slot)
    if decoder.views != NULL:
        return (<object>decoder.views)[bytes - decoder.start:bytes - decoder.start + size]
    return PyBytes_FromStringAndSize(<const char*>bytes, <Py_ssize_t>size)


cdef object decode_array(Decoder* decoder, const Slot* slot):
    cdef Py_ssize_t i
    cdef const uint8_t* bytes
    cdef const Slot* element = slot.element
    cdef int64_t size = take_size(decoder, slot)
    if size < 0:
        return None
    take_elements(decoder, element, <uint64_t>size)
    cdef list values = PyList_New(<Py_ssize_t>size)
    if element.kind <= BOOL:
        bytes = take(decoder, <size_t>size * element.size_min, slot)
        for i in range(<Py_ssize_t>size):
            set_new(values, i, load_fixed(element.kind, bytes + <size_t>i * element.size_min))
        decoder.step_left -= size * ELEMENT_WEIGHT
        return values
    return fill_array(decoder, slot, values, 0, False)


cdef list fill_array(Decoder* decoder, const Slot* slot, list values, Py_ssize_t i,
                     bint is_resumed):
    """Decode the elements from a place on. `is_resumed`: a step was suspended in that element."""
    cdef const Slot* element = slot.element
    cdef Step* step = decoder.path.here
    cdef Py_ssize_t size = PyList_GET_SIZE(values)
    cdef int64_t weight = <int64_t>element_weight(element)
    while i < size:
        step.index = i
        if is_resumed:
            item = resume_struct(decoder, <Struct>element.struct)
            is_resumed = False
        elif decoder.step_left <= 0 and decoder.tagged == 0:
            decoder.is_suspended = True
            (<list>decoder.saved).append((values, i))
            break
        elif element.kind == STRUCT:
            decoder.step_left -= weight
            item = decode_struct(decoder, <Struct>element.struct)
        else:
            decoder.step_left -= weight
            item = decode_value(decoder, element)
        if decoder.is_suspended:
            (<list>decoder.saved).append((values, i))
            break
        set_new(values, i, item)
        i += 1
    step.index = -1
    return values


cdef object resume_value(Decoder* decoder, const Slot* slot):
    """Continue an array or a struct in which a step was suspended."""
    if slot.kind == STRUCT:
        return resume_struct(decoder, <Struct>slot.struct)
    values, i = (<list>decoder.saved).pop()
    return fill_array(decoder, slot, values, i, len(<list>decoder.saved) > 0)


cdef int take_elements(Decoder* decoder, const Slot* element, uint64_t count) except -1:
    """Refuse more elements than the bytes left can hold, before anything is allocated for them."""
    cdef size_t weight = element_weight(element)
    if count * element.size_min > decoder.cursor.left:
        raise short_of(decoder, f"{count} elements of at least {element.size_min} bytes")
    if count > decoder.weight_left // weight:
        raise refusal(LimitExceeded, decoder,
                      f"a message whose arrays weigh at most {decoder.weight_max}", "more")
    decoder.weight_left -= <size_t>count * weight
    return 0


cdef inline void set_new(list values, Py_ssize_t i, object value) noexcept:
    Py_INCREF(value)    # PyList_SET_ITEM takes over a reference
    PyList_SET_ITEM(values, i, value)


cdef object decode_nested(Decoder* decoder, const Slot* slot):
    cdef int8_t mark = 0
    if slot.is_nullable:
        if cursor_int8(&decoder.cursor, &mark) != READ_DONE:
            raise short_of(decoder, "an int8 before a struct")
        if mark < 0:
            return None
    return decode_struct(decoder, <Struct>slot.struct)


# ---- reading, and its errors ---------------------------------------------------------------------

cdef inline const uint8_t* take(Decoder* decoder, size_t size, const Slot* slot) except NULL:
    cdef const uint8_t* bytes = cursor_take(&decoder.cursor, size)
    if bytes == NULL:
        raise short_of(decoder, f"{size} bytes of {type_of(slot)}")
    return bytes


cdef inline uint32_t take_varint(Decoder* decoder, str meaning) except? 0xFFFFFFFF:
    cdef uint32_t value = 0
    cdef ReadStatus status = cursor_unsigned_varint(&decoder.cursor, &value)
    if status != READ_DONE:
        raise no_varint(decoder, status, meaning)
    return value


cdef no_varint(Decoder* decoder, ReadStatus status, str meaning):
    if status == READ_OVERLONG:
        return malformed(decoder, f"a varint of at most 32 bits as {meaning}", "more")
    return short_of(decoder, f"a varint as {meaning}")


cdef int64_t take_size(Decoder* decoder, const Slot* slot) except -2:
    """Return the checked length or count before a value, or -1 for null."""
    cdef int64_t size = -1
    cdef int16_t short_size = 0
    cdef int32_t long_size = 0
    if slot.is_compact:
        size = <int64_t>take_varint(decoder, "a size") - 1
    elif slot.kind == STRING:
        if cursor_int16(&decoder.cursor, &short_size) != READ_DONE:
            raise short_of(decoder, "an int16 as a size")
        size = short_size
    else:
        if cursor_int32(&decoder.cursor, &long_size) != READ_DONE:
            raise short_of(decoder, "an int32 as a size")
        size = long_size
    if size >= 0:
        return size
    if size < -1:
        raise malformed(decoder, "a size from -1", str(size))
    if not slot.is_nullable:
        raise malformed(decoder, f"{type_of(slot)}", "null")
    return -1


cdef short_of(Decoder* decoder, str expected):
    return refusal(Truncated, decoder, expected, f"{decoder.cursor.left} bytes left")


cdef malformed(Decoder* decoder, str expected, str found):
    return refusal(Corrupt, decoder, expected, found)


cdef refusal(kind, Decoder* decoder, str expected, str found):
    resume_gc(decoder)    # the exception's class is Python code
    return kind(f"{path_text(&decoder.path)}: expected {expected}, found {found}",
                decoder.cursor.next - decoder.start)
