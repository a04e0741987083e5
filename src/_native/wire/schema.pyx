"""The table interpreter: any Kafka message, any version, between bytes and plain dictionaries.

`broker.codec.schema` makes one Program per (message, version) out of the table of messages; here
it is run, in both directions. How the values of the wire look (Kafka's protocol guide and KIP-482):

    integers        big-endian; bool one byte, uuid 16 bytes
    string          int16 length, -1 is null           compact: varint of length + 1, 0 is null
    bytes, records  int32 length, -1 is null           compact: the same varint
    array           int32 count, -1 is null            compact: varint of count + 1, 0 is null
    struct          its fields in order                a nullable one: int8 first, below 0 is null
    tagged fields   after a flexible struct's fields: varint count, then each varint tag, varint
                    size, value; unknown tags are skipped, values equal to the default not written

A decoded dictionary has every field of the message; those its version lacks have their default.
An encoded one may lack any: it means the default.

Where a value stands is kept while walking (`Path`), so only a failure pays for saying where.
"""

from cpython.bool cimport PyBool_Check
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.dict cimport PyDict_Check, PyDict_Copy, PyDict_SetItem, PyDict_Size
from cpython.list cimport PyList_Check, PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Check, PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t,
)
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from broker._native.kernel.cursor cimport (
    READ_DONE, READ_OVERLONG, Cursor, ReadStatus, cursor_int8, cursor_int16, cursor_int32,
    cursor_take, cursor_unsigned_varint, load_int16, load_int32, load_int64, load_uint16,
    load_uint32, load_uint64,
)

from sys import intern

from broker.model.errors import PeerError


cdef extern from "Python.h":
    # Borrowed references, which Cython's own declarations would count.
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL
    PyObject* PyTuple_GET_ITEM(tuple values, Py_ssize_t i)
    PyObject* PySequence_Fast_GET_ITEM(object values, Py_ssize_t i)
    Py_ssize_t PySequence_Fast_GET_SIZE(object values)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1


cdef enum:
    STRING_SIZE_MAX = 32767      # Kafka's own, compact or not
    SIZE_MAX = 0x7FFFFFFE        # of bytes and of an array: size + 1 must fit an int32
    ELEMENTS_MAX = 1 << 20       # array elements of one decoded message: what its objects may cost
    DEPTH_MAX = 12               # structs within structs; Kafka's deepest message has 6
    TAGGED_MAX = 127             # tagged fields of a struct: their count is one byte of varint
    FIRST_CAPACITY = 256         # of the buffer a message is encoded into
    VARINT_SIZE_MAX = 5

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

KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES,
    "records": BYTES, "{}": STRUCT,
}
cdef int[9] FIXED_SIZE = [1, 2, 2, 4, 4, 8, 8, 16, 1]
cdef int64_t[6] INTEGER_MIN = [-0x80, -0x8000, 0, -0x80000000, 0, INT64_MIN]
cdef int64_t[6] INTEGER_MAX = [0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, INT64_MAX]


# ---- the program: what schema.py compiles a (message, version) to ------------------------------

cdef class Field:
    """One field of one version: how its value is written, and what stands for a missing one."""

    cdef str name
    cdef str type
    cdef int kind
    cdef bint is_nullable
    cdef bint is_compact
    cdef uint32_t tag
    cdef object default     # for an array or a struct an empty one of our own, never handed out
    cdef Struct struct      # of STRUCT
    cdef Field element      # of ARRAY
    cdef size_t size_min    # the fewest bytes a value takes

    def __init__(self, str name, str type, *, bint is_nullable=False, bint is_compact=False,
                 uint32_t tag=0, default=None, Struct struct=None):
        self.name = intern(name)    # as the keys of literal dictionaries are: found by address
        self.type = type
        self.is_nullable = is_nullable
        self.is_compact = is_compact
        self.tag = tag
        self.default = default
        if type.startswith("[]"):
            self.kind = ARRAY
            self.element = Field(name, type[2:] or "{}", is_compact=is_compact, struct=struct)
            self.size_min = 1 if is_compact else 4
        else:
            self.kind = KINDS[type]
            self.struct = struct
            self.size_min = self._size_min()

    cdef size_t _size_min(self):
        if self.kind == STRUCT:
            return 1 if self.is_nullable else self.struct.size_min
        if self.kind == STRING or self.kind == BYTES:
            return 1 if self.is_compact else (2 if self.kind == STRING else 4)
        return FIXED_SIZE[self.kind]


cdef class Struct:
    """The fields of a struct, or of a whole message, in one version."""

    cdef tuple fields       # of this version, in the order of the wire
    cdef tuple tagged       # of this version, by ascending tag
    cdef tuple unshared     # absent or tagged fields whose default must be made anew each time
    cdef bint is_flexible
    cdef dict template      # every field of any version with its default, copied for each value
    cdef size_t size_min
    cdef int depth

    def __init__(self, fields, tagged, absent, *, bint is_flexible):
        cdef Field field
        self.fields = tuple(fields)
        self.tagged = tuple(tagged)
        self.is_flexible = is_flexible
        self.unshared = tuple([field for field in (*tagged, *absent)
                               if isinstance(field.default, (list, dict))])
        self.template = {field.name: field.default for field in (*fields, *tagged, *absent)}
        self.size_min = 1 if is_flexible else 0
        self.depth = 1
        for field in self.fields:
            self.size_min += field.size_min
        for field in self.fields + self.tagged:
            self.depth = max(self.depth, 1 + _depth_below(field))
        if self.depth > DEPTH_MAX or len(self.tagged) > TAGGED_MAX:
            raise ValueError("a struct is too deep or has too many tagged fields")


cdef int _depth_below(Field field):
    cdef Struct struct = field.element.struct if field.kind == ARRAY else field.struct
    return 0 if struct is None else struct.depth


cdef class Program:
    """One version of one message: decodes and encodes it."""

    cdef str title
    cdef Struct root

    def __init__(self, str title, Struct root):
        self.title = title
        self.root = root

    def decode(self, data, Py_ssize_t offset=0):
        """Return the message that stands at offset in a bytes-like object, and where it ends.

        Raises:
            PeerError: the bytes are not such a message.
        """
        cdef Py_buffer view
        cdef Decoder decoder
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if not 0 <= offset <= view.len:
                raise ValueError(f"offset {offset} of {view.len} bytes")
            decoder.start = <const uint8_t*>view.buf
            decoder.cursor.next = decoder.start + offset
            decoder.cursor.left = <size_t>(view.len - offset)
            decoder.elements_left = ELEMENTS_MAX
            decoder.path.title = <PyObject*>self.title
            decoder.path.depth = 0
            value = decode_struct(&decoder, self.root)
            return value, decoder.cursor.next - decoder.start
        finally:
            PyBuffer_Release(&view)

    def encode(self, value):
        """Return the bytes of the message whose fields a dictionary has.

        Raises:
            ValueError: a value is not of its field's type, or a name is no field's.
        """
        cdef Encoder encoder
        encoder.size = 0
        encoder.capacity = FIRST_CAPACITY
        encoder.bytes = <uint8_t*>malloc(FIRST_CAPACITY)
        encoder.path.title = <PyObject*>self.title
        encoder.path.depth = 0
        if encoder.bytes == NULL:
            raise MemoryError
        try:
            encode_struct(&encoder, self.root, value)
            return PyBytes_FromStringAndSize(<char*>encoder.bytes, <Py_ssize_t>encoder.size)
        finally:
            free(encoder.bytes)


# ---- where in the message ----------------------------------------------------------------------

cdef struct Step:
    PyObject* field         # borrowed from the program, which outlives the walk
    Py_ssize_t index        # in an array, or -1

cdef struct Path:
    PyObject* title
    int depth
    Step[DEPTH_MAX] steps


cdef str path_text(Path* path):
    cdef int i
    parts = []
    for i in range(path.depth):
        if path.steps[i].field == NULL:
            break
        name = (<Field>path.steps[i].field).name
        index = path.steps[i].index
        parts.append(name if index < 0 else f"{name}[{index}]")
    return f"{<object>path.title}: {'.'.join(parts) or 'the message'}"


cdef inline void path_enter(Path* path) noexcept:
    path.steps[path.depth].field = NULL
    path.depth += 1


cdef inline void path_at(Path* path, PyObject* field) noexcept:
    path.steps[path.depth - 1].field = field
    path.steps[path.depth - 1].index = -1


# ---- decoding ----------------------------------------------------------------------------------

cdef struct Decoder:
    Cursor cursor
    const uint8_t* start
    size_t elements_left
    Path path


cdef malformed(Decoder* decoder, str expected, str found):
    return PeerError(f"{path_text(&decoder.path)}: expected {expected}, found {found} "
                     f"at byte {decoder.cursor.next - decoder.start}")


cdef short_of(Decoder* decoder, str expected):
    return malformed(decoder, expected, f"{decoder.cursor.left} bytes left")


cdef const uint8_t* take(Decoder* decoder, size_t size, Field field) except NULL:
    cdef const uint8_t* bytes = cursor_take(&decoder.cursor, size)
    if bytes == NULL:
        raise short_of(decoder, f"{size} bytes of {field.type}")
    return bytes


cdef uint32_t take_varint(Decoder* decoder, str meaning) except? 0xFFFFFFFF:
    cdef uint32_t value = 0
    cdef ReadStatus status = cursor_unsigned_varint(&decoder.cursor, &value)
    if status == READ_DONE:
        return value
    if status == READ_OVERLONG:
        raise malformed(decoder, f"a varint of at most 32 bits as {meaning}", "more")
    raise short_of(decoder, f"a varint as {meaning}")


cdef int64_t take_size(Decoder* decoder, Field field) except -2:
    """Return the length or count before a value, or -1 for null, having checked that it may be."""
    cdef int64_t size = -1
    cdef int16_t short_size = 0
    cdef int32_t long_size = 0
    if field.is_compact:
        size = <int64_t>take_varint(decoder, "a size") - 1
    elif field.kind == STRING:
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
    if not field.is_nullable:
        raise malformed(decoder, f"{field.type}", "null")
    return -1


cdef object decode_value(Decoder* decoder, Field field):
    cdef int kind = field.kind
    cdef const uint8_t* bytes
    if kind == STRING:
        return decode_string(decoder, field)
    elif kind == BYTES:
        return decode_bytes(decoder, field)
    elif kind == ARRAY:
        return decode_array(decoder, field)
    elif kind == STRUCT:
        return decode_nested(decoder, field)
    bytes = take(decoder, FIXED_SIZE[kind], field)
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


cdef object decode_string(Decoder* decoder, Field field):
    cdef int64_t size = take_size(decoder, field)
    cdef const uint8_t* bytes
    if size < 0:
        return None
    if size > STRING_SIZE_MAX:
        raise malformed(decoder, f"a string of at most {STRING_SIZE_MAX} bytes", str(size))
    bytes = take(decoder, <size_t>size, field)
    try:
        return PyUnicode_DecodeUTF8(<char*>bytes, <Py_ssize_t>size, NULL)
    except UnicodeDecodeError as error:
        raise malformed(decoder, "UTF-8", f"{error.object[:40]!r}") from None


cdef object decode_bytes(Decoder* decoder, Field field):
    cdef int64_t size = take_size(decoder, field)
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>take(decoder, <size_t>size, field),
                                     <Py_ssize_t>size)


cdef object decode_array(Decoder* decoder, Field field):
    cdef Py_ssize_t i
    cdef const uint8_t* bytes
    cdef Field element = field.element
    cdef Step* step = &decoder.path.steps[decoder.path.depth - 1]
    cdef int64_t size = take_size(decoder, field)
    if size < 0:
        return None
    take_elements(decoder, element, <uint64_t>size)
    cdef list values = PyList_New(<Py_ssize_t>size)
    if element.kind <= BOOL:
        bytes = take(decoder, <size_t>size * element.size_min, field)
        for i in range(<Py_ssize_t>size):
            set_new(values, i, load_fixed(element.kind, bytes + <size_t>i * element.size_min))
    else:
        for i in range(<Py_ssize_t>size):
            step.index = i
            set_new(values, i, decode_value(decoder, element))
    return values


cdef inline void set_new(list values, Py_ssize_t i, object value) noexcept:
    Py_INCREF(value)    # PyList_SET_ITEM keeps one
    PyList_SET_ITEM(values, i, value)


cdef int take_elements(Decoder* decoder, Field element, uint64_t count) except -1:
    """Refuse more elements than the bytes left can hold, before anything is allocated for them."""
    if count * element.size_min > decoder.cursor.left:
        raise short_of(decoder, f"{count} elements of at least {element.size_min} bytes")
    if count > decoder.elements_left:
        raise malformed(decoder, f"a message of at most {ELEMENTS_MAX} array elements", "more")
    decoder.elements_left -= <size_t>count
    return 0


cdef object decode_nested(Decoder* decoder, Field field):
    cdef int8_t mark = 0
    if field.is_nullable:
        if cursor_int8(&decoder.cursor, &mark) != READ_DONE:
            raise short_of(decoder, "an int8 before a struct")
        if mark < 0:
            return None
    return decode_struct(decoder, field.struct)


cdef dict decode_struct(Decoder* decoder, Struct struct):
    cdef Py_ssize_t i
    cdef PyObject* field
    cdef dict value = PyDict_Copy(struct.template)
    path_enter(&decoder.path)
    for i in range(PyTuple_GET_SIZE(struct.fields)):
        field = PyTuple_GET_ITEM(struct.fields, i)
        path_at(&decoder.path, field)
        PyDict_SetItem(value, (<Field>field).name, decode_value(decoder, <Field>field))
    if PyTuple_GET_SIZE(struct.unshared) > 0:
        set_defaults(value, struct)
    if struct.is_flexible:
        decode_tagged(decoder, struct, value)
    decoder.path.depth -= 1
    return value


cdef int set_defaults(dict value, Struct struct) except -1:
    cdef Field field
    for field in struct.unshared:
        value[field.name] = [] if field.kind == ARRAY else default_struct(field.struct)
    return 0


cdef dict default_struct(Struct struct):
    cdef Field field
    value = struct.template.copy()
    for field in struct.fields:
        if field.kind == ARRAY and field.default is not None:
            value[field.name] = []
        elif field.kind == STRUCT and field.default is not None:
            value[field.name] = default_struct(field.struct)
    set_defaults(value, struct)
    return value


cdef int decode_tagged(Decoder* decoder, Struct struct, dict value) except -1:
    cdef uint32_t tag, size
    cdef size_t left_after
    cdef Field field
    cdef uint32_t count
    if decoder.cursor.left > 0 and decoder.cursor.next[0] == 0:
        cursor_take(&decoder.cursor, 1)    # nearly always
        return 0
    path_at(&decoder.path, NULL)
    count = take_varint(decoder, "a count of tagged fields")
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
        path_at(&decoder.path, <PyObject*>field)
        # The field may read its own bytes only.
        decoder.cursor.left = size
        PyDict_SetItem(value, field.name, decode_value(decoder, field))
        if decoder.cursor.left != 0:
            raise malformed(decoder, f"tagged field {tag} in {size} bytes",
                            f"{decoder.cursor.left} too many")
        decoder.cursor.left = left_after
    return 0


cdef Field find_tagged(Struct struct, uint32_t tag):
    cdef Field field
    for field in struct.tagged:
        if field.tag == tag:
            return field
    return None


# ---- encoding ----------------------------------------------------------------------------------

cdef struct Encoder:
    uint8_t* bytes
    size_t size
    size_t capacity
    Path path


cdef wrong(Encoder* encoder, str expected, object found):
    return ValueError(f"{path_text(&encoder.path)}: expected {expected}, found {found!r:.80}")


cdef int grow(Encoder* encoder, size_t size) except -1:
    cdef size_t capacity = encoder.capacity
    cdef uint8_t* bytes
    while capacity - encoder.size < size:
        capacity *= 2
    bytes = <uint8_t*>realloc(encoder.bytes, capacity)
    if bytes == NULL:
        raise MemoryError
    encoder.bytes = bytes
    encoder.capacity = capacity
    return 0


cdef inline uint8_t* room(Encoder* encoder, size_t size) except NULL:
    """Return where the next `size` bytes go; whoever writes them adds them to the size."""
    if encoder.capacity - encoder.size < size:
        grow(encoder, size)
    return encoder.bytes + encoder.size


cdef inline int put_integer(Encoder* encoder, int64_t value, int size) except -1:
    """Write the low `size` bytes of an integer, big-endian."""
    # Always eight bytes, of which the first `size` count: one byte swap and one store.
    cdef uint8_t* place = room(encoder, 8)
    cdef uint64_t word = <uint64_t>value << (64 - 8 * size)
    place[0] = <uint8_t>(word >> 56)
    place[1] = <uint8_t>(word >> 48)
    place[2] = <uint8_t>(word >> 40)
    place[3] = <uint8_t>(word >> 32)
    place[4] = <uint8_t>(word >> 24)
    place[5] = <uint8_t>(word >> 16)
    place[6] = <uint8_t>(word >> 8)
    place[7] = <uint8_t>word
    encoder.size += size
    return 0


cdef inline int put_bytes(Encoder* encoder, const void* bytes, size_t size) except -1:
    memcpy(room(encoder, size), bytes, size)
    encoder.size += size
    return 0


cdef inline int store_varint(uint8_t* place, uint32_t value) noexcept:
    cdef int size = 1
    while value >= 0x80:
        place[size - 1] = <uint8_t>(value | 0x80)
        value >>= 7
        size += 1
    place[size - 1] = <uint8_t>value
    return size


cdef inline int put_varint(Encoder* encoder, uint32_t value) except -1:
    encoder.size += store_varint(room(encoder, VARINT_SIZE_MAX), value)
    return 0


cdef int put_size(Encoder* encoder, Field field, Py_ssize_t size) except -1:
    """Write a length or count, or -1 for null."""
    if size > (STRING_SIZE_MAX if field.kind == STRING else SIZE_MAX):
        raise wrong(encoder, f"a shorter {field.type}", size)
    if field.is_compact:
        return put_varint(encoder, <uint32_t>(size + 1))
    return put_integer(encoder, size, 2 if field.kind == STRING else 4)


cdef int encode_value(Encoder* encoder, Field field, object value) except -1:
    cdef int kind = field.kind
    if kind <= INT64:
        return encode_integer(encoder, field, value)
    if kind == STRUCT:
        return encode_nested(encoder, field, value)
    if kind <= BOOL:
        return encode_fixed(encoder, field, value)
    if value is None and field.is_nullable:
        return put_size(encoder, field, -1)
    if kind == STRING:
        return encode_string(encoder, field, value)
    if kind == ARRAY:
        return encode_array(encoder, field, value)
    return encode_bytes(encoder, field, value)


cdef int encode_integer(Encoder* encoder, Field field, object value) except -1:
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_Check(value):
        raise wrong(encoder, field.type, value)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < INTEGER_MIN[field.kind] or number > INTEGER_MAX[field.kind]:
        raise wrong(encoder, field.type, value)
    return put_integer(encoder, number, FIXED_SIZE[field.kind])


cdef int encode_fixed(Encoder* encoder, Field field, object value) except -1:
    cdef double number
    cdef uint64_t word
    if field.kind == BOOL and PyBool_Check(value):
        return put_integer(encoder, value is True, 1)
    if field.kind == UUID and PyBytes_Check(value) and PyBytes_GET_SIZE(value) == 16:
        return put_bytes(encoder, PyBytes_AS_STRING(value), 16)
    if field.kind == FLOAT64 and isinstance(value, (float, int)):
        number = value
        memcpy(&word, &number, 8)
        return put_integer(encoder, <int64_t>word, 8)
    raise wrong(encoder, "16 bytes of uuid" if field.kind == UUID else field.type, value)


cdef int encode_string(Encoder* encoder, Field field, object value) except -1:
    cdef Py_ssize_t size = 0
    cdef const char* bytes
    if not PyUnicode_Check(value):
        raise wrong(encoder, "string", value)
    try:
        bytes = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError:
        raise wrong(encoder, "a string that UTF-8 can say", value) from None
    put_size(encoder, field, size)
    return put_bytes(encoder, bytes, <size_t>size)


cdef int encode_bytes(Encoder* encoder, Field field, object value) except -1:
    cdef Py_buffer view
    if PyBytes_Check(value):
        put_size(encoder, field, PyBytes_GET_SIZE(value))
        return put_bytes(encoder, PyBytes_AS_STRING(value), <size_t>PyBytes_GET_SIZE(value))
    if not isinstance(value, (bytearray, memoryview)):
        raise wrong(encoder, field.type, value)
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        put_size(encoder, field, view.len)
        return put_bytes(encoder, view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


cdef int encode_array(Encoder* encoder, Field field, object value) except -1:
    cdef Py_ssize_t i, size
    cdef Step* step = &encoder.path.steps[encoder.path.depth - 1]
    if not PyList_Check(value) and not PyTuple_Check(value):
        raise wrong(encoder, "a list", value)
    size = PySequence_Fast_GET_SIZE(value)
    put_size(encoder, field, size)
    for i in range(size):
        step.index = i
        encode_value(encoder, field.element, <object>PySequence_Fast_GET_ITEM(value, i))
    return 0


cdef int encode_nested(Encoder* encoder, Field field, object value) except -1:
    if field.is_nullable:
        put_integer(encoder, -1 if value is None else 1, 1)
        if value is None:
            return 0
    return encode_struct(encoder, field.struct, value)


cdef int encode_struct(Encoder* encoder, Struct struct, object value) except -1:
    cdef Py_ssize_t i, known = 0
    cdef PyObject* field
    cdef PyObject* item
    if not PyDict_Check(value):
        raise wrong(encoder, "a dictionary", value)
    path_enter(&encoder.path)
    for i in range(PyTuple_GET_SIZE(struct.fields)):
        field = PyTuple_GET_ITEM(struct.fields, i)
        item = PyDict_GetItemWithError(value, (<Field>field).name)
        path_at(&encoder.path, field)
        if item == NULL:
            encode_value(encoder, <Field>field, (<Field>field).default)
        else:
            known += 1
            encode_value(encoder, <Field>field, <object>item)
    if struct.is_flexible:
        known += encode_tagged(encoder, struct, <dict>value)
    if known != PyDict_Size(value):
        check_names(encoder, struct, <dict>value)
    encoder.path.depth -= 1
    return 0


cdef int check_names(Encoder* encoder, Struct struct, dict value) except -1:
    """Refuse a name that no version has; the names of other versions are passed over."""
    path_at(&encoder.path, NULL)
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
    cdef PyObject* item
    put_integer(encoder, 0, 1)
    for field in struct.tagged:
        item = PyDict_GetItemWithError(value, field.name)
        if item == NULL:
            continue
        known += 1
        if is_default(field, <object>item):
            continue
        count += 1
        path_at(&encoder.path, <PyObject*>field)
        put_varint(encoder, field.tag)
        size_at = encoder.size
        encode_value(encoder, field, <object>item)
        insert_size(encoder, size_at)
    encoder.bytes[count_at] = count
    return known


cdef int insert_size(Encoder* encoder, size_t size_at) except -1:
    """Put a varint before the bytes since size_at: how many they are."""
    cdef uint8_t[VARINT_SIZE_MAX] varint
    cdef size_t size = encoder.size - size_at
    cdef size_t varint_size = <size_t>store_varint(varint, <uint32_t>size)
    room(encoder, varint_size)
    memmove(encoder.bytes + size_at + varint_size, encoder.bytes + size_at, size)
    memcpy(encoder.bytes + size_at, varint, varint_size)
    encoder.size += varint_size
    return 0


cdef bint is_default(Field field, object value) except -1:
    if value is None or field.default is None:
        return value is field.default
    if field.kind == STRUCT and PyDict_Check(value):
        return is_default_struct(field.struct, <dict>value)
    return value == field.default


cdef bint is_default_struct(Struct struct, dict value) except -1:
    cdef Field field
    for field in struct.fields + struct.tagged:
        if field.name in value and not is_default(field, value[field.name]):
            return False
    return True
