/* What the two CRCs have in common: arithmetic on polynomials over GF(2), and the table method.
 *
 * A CRC is the remainder of the message, read as a polynomial, divided by a fixed polynomial of
 * degree 32. Both are kept reflected: bit 31 of a word is the coefficient of x^0, bit 0 that of
 * x^31, so that the first bit of a message, the lowest of its first byte, has the highest power.
 * A CRC over n more zero bytes is the old one times x^8n. Header only: each CRC compiles it in.
 */
#ifndef BROKER_CRC_POLYNOMIAL_H
#define BROKER_CRC_POLYNOMIAL_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/little_endian.h"

enum { CRC_SLICES = 16 }; /* bytes that the table method takes in one step */

/* CRC of `size` bytes that follow bytes whose CRC is `crc` (0 to begin). */
typedef uint32_t crc_function(uint32_t crc, const uint8_t *bytes, size_t size);

struct crc_implementation {
    const char *name;
    crc_function *extend;
};

static inline uint32_t crc_times_x(uint32_t value, uint32_t polynomial)
{
    return (value >> 1) ^ (polynomial & (0u - (value & 1)));
}

static inline uint32_t crc_times(uint32_t left, uint32_t right, uint32_t polynomial)
{
    uint32_t product = 0;
    for (; left != 0; left <<= 1, right = crc_times_x(right, polynomial))
        if (left & 0x80000000u)
            product ^= right;
    return product;
}

/* x to the power of `exponent`, modulo the polynomial. */
static inline uint32_t crc_power(uint64_t exponent, uint32_t polynomial)
{
    uint32_t power = 0x80000000u, square = 0x40000000u;
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1)
            power = crc_times(power, square, polynomial);
        square = crc_times(square, square, polynomial);
    }
    return power;
}

/* table[n][b] is the remainder of the byte b with n zero bytes behind it. */
static inline void crc_fill_table(uint32_t table[CRC_SLICES][256], uint32_t polynomial)
{
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t state = value;
        for (int bit = 0; bit < 8; bit++)
            state = crc_times_x(state, polynomial);
        table[0][value] = state;
    }
    for (int row = 1; row < CRC_SLICES; row++)
        for (uint32_t value = 0; value < 256; value++) {
            uint32_t before = table[row - 1][value];
            table[row][value] = table[0][before & 255] ^ (before >> 8);
        }
}

/* The remainder of the `size` bytes of a word, the lowest first. */
static inline uint32_t crc_word_by_table(uint32_t table[][256], uint64_t word, int size)
{
    uint32_t state = 0;
    for (int byte = 0; byte < size; byte++)
        state ^= table[size - 1 - byte][(word >> (8 * byte)) & 255];
    return state;
}

/* The table method on the bare remainder, without the inversions before and after. */
static inline uint32_t crc_by_table(uint32_t table[CRC_SLICES][256], uint32_t state,
                                    const uint8_t *bytes, size_t size)
{
    for (; size >= CRC_SLICES; size -= CRC_SLICES, bytes += CRC_SLICES)
        state = crc_word_by_table(table + 8, load64_little(bytes) ^ state, 8)
              ^ crc_word_by_table(table, load64_little(bytes + 8), 8);
    if (size >= 8) {
        state = crc_word_by_table(table, load64_little(bytes) ^ state, 8);
        bytes += 8;
        size -= 8;
    }
    if (size >= 4) {
        state = crc_word_by_table(table, load32_little(bytes) ^ state, 4);
        bytes += 4;
        size -= 4;
    }
    for (; size > 0; size--)
        state = table[0][(state ^ *bytes++) & 255] ^ (state >> 8);
    return state;
}

#endif
