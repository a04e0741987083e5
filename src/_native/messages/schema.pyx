"""Programs: one version of one Kafka message, compiled to structs of fields in wire order.

`broker.codec.schema` builds these from the table of messages; `decoder` and
`encoder` walk them to build dictionaries, or bytes. The encoding of values (Kafka's protocol
guide and KIP-482):

    integers        big-endian; bool one byte, uuid 16 bytes
    string          int16 length, -1 is null           compact: varint of length + 1, 0 is null
    bytes, records  int32 length, -1 is null           compact: the same varint
    array           int32 count, -1 is null            compact: varint of count + 1, 0 is null
    struct          its fields in order                a nullable one: int8 first, below 0 is null
    tagged fields   after a flexible struct's fields: varint count, then each varint tag, varint
                    size, value; unknown tags are skipped, values equal to the default not
                    written; a nullable struct has a varint first instead, 0 is null
"""

from cython cimport final
from libc.stdlib cimport free, malloc

from sys import intern

from broker.model import limits

assert STRING_SIZE_MAX == limits.STRING_BYTES_MAX
assert ELEMENT_WEIGHT == limits.MESSAGE_ELEMENT_WEIGHT

cdef dict KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES,
    "records": BYTES, "{}": STRUCT,
}
cdef int[9] FIXED_SIZE = [1, 2, 2, 4, 4, 8, 8, 16, 1]    # of INT8 to BOOL


@final
cdef class Field:
    """One field of one version: how its value is encoded, and its default."""

    # Never initialized again: slots point into it.
    def __cinit__(self, str name, str type, *, bint is_nullable=False, bint is_compact=False,
                  uint32_t tag=0, default=None, Struct struct=None):
        self.name = intern(name)    # like keys of dictionary literals: compared by address
        self.type = type
        self.tag = tag
        self.default = default
        self.struct = struct
        self.slot = Slot(kind=ARRAY, is_nullable=is_nullable, is_compact=is_compact,
                         is_error=name.endswith("error_code"), size_min=0,
                         field=<PyObject*>self, name=<PyObject*>self.name,
                         default=<PyObject*>default, struct=<PyObject*>struct, element=NULL)
        if KINDS.get(type.removeprefix("[]") or "{}") == STRUCT and struct is None:
            raise ValueError(f"{name} lacks its struct")
        if type.startswith("[]"):
            self.element = Field(name, type[2:] or "{}", is_compact=is_compact, struct=struct)
            self.slot.element = &self.element.slot
        else:
            self.slot.kind = KINDS[type]
        self.slot.size_min = self._size_min()

    cdef size_t _size_min(self):
        cdef int kind = self.slot.kind
        if kind == STRUCT:
            return 1 if self.slot.is_nullable else self.struct.size_min
        if kind == STRING or kind == BYTES or kind == ARRAY:
            return 1 if self.slot.is_compact else (2 if kind == STRING else 4)
        return FIXED_SIZE[kind]


@final
cdef class Struct:
    """The fields of a struct, or of a whole message, in one version."""

    # Never initialized again: walks hold no references.
    def __cinit__(self, fields, tagged, absent, *, bint is_flexible):
        cdef Field field
        self.fields = tuple(fields)
        self.tagged = tuple(tagged)
        self.is_flexible = is_flexible
        named = (*self.fields, *self.tagged, *absent)
        self.unshared = tuple([field for field in named[len(self.fields):]
                               if isinstance(field.default, (list, dict))])
        self.has_unshared = len(self.unshared) > 0
        self.template = {field.name: field.default for field in named}
        self.size_min = 1 if is_flexible else 0
        self.weight = ELEMENT_WEIGHT + len(self.template)
        self.depth = 1
        for field in self.fields:
            self.size_min += field.slot.size_min
        for field in self.fields + self.tagged:
            self.depth = max(self.depth, 1 + _depth_below(field))
        if self.depth > DEPTH_MAX or len(self.tagged) > TAGGED_MAX:
            raise ValueError("a struct is too deep or has too many tagged fields")
        self._set_slots()

    def __dealloc__(self):
        free(self.slots)

    cdef int _set_slots(self) except -1:
        cdef Field field
        self.slots = <Slot*>malloc((len(self.fields) + 1) * sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError
        self.slots_end = self.slots
        for field in self.fields:
            self.slots_end[0] = field.slot
            self.slots_end += 1
        return 0


cdef int _depth_below(Field field):
    cdef Struct struct = field.struct
    return 0 if struct is None else struct.depth


@final
cdef class Program:
    """One version of one message; errors name it by its title."""

    def __cinit__(self, str title, Struct root):
        self.title = title
        self.root = root


cdef str path_text(Path* path):
    cdef Step* step = path.steps + 1
    parts = []
    while step <= path.here and step.field != NULL:
        name = (<Field>step.field).name
        parts.append(name if step.index < 0 else f"{name}[{step.index}]")
        step += 1
    return f"{<object>path.title}: {'.'.join(parts) or 'the message'}"
