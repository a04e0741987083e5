"""The offset up to which a log's segments are sealed: `sealed-offset` in the partition's folder.

    <offset, 20 digits> <CRC-32C of those, 8 hexadecimal digits> <line feed>

Overwritten in place, without a sync, after a full segment has been synced. So any valid content
that a crash leaves was written after that sync: everything below the offset was on the disk once. A
power cut may revert the newest writes; then the offset is lower than it could be, but not wrong.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport snprintf, sscanf
from libc.string cimport memcmp

import os

from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.kernel.file_ops cimport file_read_at, file_write_at
from broker._native.log.segment_file cimport PATH_SIZE

cdef enum:
    DIGITS = 20
    SIZE = 30

FILE_NAME = "sealed-offset"


cdef void seal_text(char* into, int64_t offset) noexcept nogil:
    snprintf(into, SIZE + 1, b"%020lld", <long long>offset)
    snprintf(into + DIGITS, SIZE + 1 - DIGITS, b" %08x\n",
             crc32c_extend(0, <const uint8_t*>into, DIGITS))


cdef int seal_write(const char* folder, int64_t offset) noexcept nogil:
    """Record that everything below an offset is on the disk. 0, or -errno: the old one may stay."""
    cdef char path[PATH_SIZE]
    cdef char text[SIZE + 1]
    snprintf(path, PATH_SIZE, b"%s/sealed-offset", folder)
    seal_text(text, offset)
    return file_write_at(path, text, SIZE, 0)


def sealed_offset(str folder not None):
    """Return the offset below which all of a log was on the disk once; 0 when unknown."""
    cdef bytes folder_path = os.fsencode(folder)
    cdef char path[PATH_SIZE]
    cdef char text[SIZE + 1]
    cdef char expected[SIZE + 1]
    cdef long long offset = 0
    snprintf(path, PATH_SIZE, b"%s/sealed-offset", <const char*>folder_path)
    if file_read_at(path, text, SIZE, 0) != SIZE:
        return 0
    text[SIZE] = 0
    if sscanf(text, b"%20lld", &offset) != 1 or offset < 0:
        return 0
    seal_text(expected, offset)
    return offset if memcmp(text, expected, SIZE) == 0 else 0


def note_text(int64_t offset):
    """Return the file's content for an offset."""
    cdef char text[SIZE + 1]
    seal_text(text, offset)
    return <bytes>text[:SIZE]
