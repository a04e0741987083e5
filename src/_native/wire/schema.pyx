"""What one version of one Kafka message is compiled to: structs of fields, in the wire's order.

`broker.codec.schema` builds these from the table of messages; `schema_decoder` and
`schema_encoder` walk them, the one to make dictionaries, the other to make bytes. How the values
of the wire look (Kafka's protocol guide and KIP-482):

    integers        big-endian; bool one byte, uuid 16 bytes
    string          int16 length, -1 is null           compact: varint of length + 1, 0 is null
    bytes, records  int32 length, -1 is null           compact: the same varint
    array           int32 count, -1 is null            compact: varint of count + 1, 0 is null
    struct          its fields in order                a nullable one: int8 first, below 0 is null
    tagged fields   after a flexible struct's fields: varint count, then each varint tag, varint
                    size, value; unknown tags are skipped, values equal to the default not written
"""

from cython cimport final

from sys import intern

from broker.model import limits

assert STRING_SIZE_MAX == limits.STRING_BYTES_MAX

cdef dict KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES,
    "records": BYTES, "{}": STRUCT,
}
cdef int[9] FIXED_SIZE = [1, 2, 2, 4, 4, 8, 8, 16, 1]    # of INT8 to BOOL


@final
cdef class Field:
    """One field of one version: how its value is written, and what stands for a missing one."""

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


@final
cdef class Struct:
    """The fields of a struct, or of a whole message, in one version."""

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


@final
cdef class Program:
    """One version of one message; the title is what errors call it."""

    def __init__(self, str title, Struct root):
        self.title = title
        self.root = root


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
