/* CRC-32C at the speed of the processor's own instruction.
 *
 * One crc32 instruction has a latency of three cycles and a throughput of one, so three
 * independent chains run over three neighbouring blocks and are joined afterwards. Joining means
 * advancing a CRC over as many zero bytes as the next block has, a linear map over GF(2) that four
 * tables of 256 words per block size hold ready.
 */
#include "crc32c_hardware.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82F63B78u
/* Blocks of one chain, in bytes: long ones for speed, short ones for what remains of small batches. */
enum { BLOCK_LONG = 4096, BLOCK_SHORT = 256 };

static uint32_t byte_table[8][256];
static uint32_t shift_long[4][256], shift_short[4][256];
static uint32_t (*extend)(uint32_t, const uint8_t *, size_t);
static const char *implementation;

/* ---- table ---------------------------------------------------------------------------------- */

static uint64_t load64_little(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

uint32_t crc32c_extend_table(uint32_t crc, const uint8_t *bytes, size_t size)
{
    uint32_t state = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word = load64_little(bytes) ^ state;
        state = byte_table[7][word & 255] ^ byte_table[6][(word >> 8) & 255]
              ^ byte_table[5][(word >> 16) & 255] ^ byte_table[4][(word >> 24) & 255]
              ^ byte_table[3][(word >> 32) & 255] ^ byte_table[2][(word >> 40) & 255]
              ^ byte_table[1][(word >> 48) & 255] ^ byte_table[0][word >> 56];
    }
    for (; size > 0; size--)
        state = byte_table[0][(state ^ *bytes++) & 255] ^ (state >> 8);
    return ~state;
}

/* ---- GF(2) matrices: advancing a CRC over zero bytes ------------------------------------------ */

static uint32_t matrix_times(const uint32_t matrix[32], uint32_t vector)
{
    uint32_t sum = 0;
    for (int bit = 0; vector != 0; vector >>= 1, bit++)
        if (vector & 1)
            sum ^= matrix[bit];
    return sum;
}

static void matrix_square(uint32_t square[32], const uint32_t matrix[32])
{
    for (int bit = 0; bit < 32; bit++)
        square[bit] = matrix_times(matrix, matrix[bit]);
}

/* Fills table so that shift() advances over zero_bytes, a power of two. */
static void shift_table(uint32_t table[4][256], size_t zero_bytes)
{
    uint32_t odd[32], even[32];
    odd[0] = POLYNOMIAL; /* one zero bit */
    for (int bit = 1; bit < 32; bit++)
        odd[bit] = 1u << (bit - 1);
    matrix_square(even, odd); /* two */
    matrix_square(odd, even); /* four */
    matrix_square(even, odd); /* eight: one byte */
    uint32_t *have = even, *next = odd;
    for (; zero_bytes > 1; zero_bytes >>= 1) {
        matrix_square(next, have);
        uint32_t *swap = have;
        have = next;
        next = swap;
    }
    for (uint32_t value = 0; value < 256; value++)
        for (int byte = 0; byte < 4; byte++)
            table[byte][value] = matrix_times(have, value << (8 * byte));
}

#if defined(__x86_64__) || defined(__aarch64__)

static uint32_t shift(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][(crc >> 8) & 255] ^ table[2][(crc >> 16) & 255]
         ^ table[3][crc >> 24];
}

#if defined(__x86_64__)
#define HARDWARE __attribute__((target("sse4.2")))
#define STEP8(state, word) ((uint32_t)_mm_crc32_u64((state), (word)))
#define STEP1(state, byte) _mm_crc32_u8((state), (byte))
#else
#define HARDWARE __attribute__((target("+crc")))
#define STEP8(state, word) __crc32cd((state), (word))
#define STEP1(state, byte) __crc32cb((state), (byte))
#endif

HARDWARE static inline uint32_t three_chains(uint32_t state, const uint8_t *bytes, size_t block,
                                             uint32_t table[4][256])
{
    uint32_t second = 0, third = 0;
    for (const uint8_t *end = bytes + block; bytes < end; bytes += 8) {
        state = STEP8(state, load64_little(bytes));
        second = STEP8(second, load64_little(bytes + block));
        third = STEP8(third, load64_little(bytes + 2 * block));
    }
    return shift(table, shift(table, state) ^ second) ^ third;
}

HARDWARE static uint32_t extend_hardware(uint32_t crc, const uint8_t *bytes, size_t size)
{
    uint32_t state = ~crc;
    for (; size >= 3 * BLOCK_LONG; size -= 3 * BLOCK_LONG, bytes += 3 * BLOCK_LONG)
        state = three_chains(state, bytes, BLOCK_LONG, shift_long);
    for (; size >= 3 * BLOCK_SHORT; size -= 3 * BLOCK_SHORT, bytes += 3 * BLOCK_SHORT)
        state = three_chains(state, bytes, BLOCK_SHORT, shift_short);
    for (; size >= 8; size -= 8, bytes += 8)
        state = STEP8(state, load64_little(bytes));
    for (; size > 0; size--)
        state = STEP1(state, *bytes++);
    return ~state;
}

static int has_hardware(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2");
#else
    return (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
#endif
}

#endif

void crc32c_init(void)
{
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ POLYNOMIAL : crc >> 1;
        byte_table[0][value] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (uint32_t value = 0; value < 256; value++) {
            uint32_t before = byte_table[row - 1][value];
            byte_table[row][value] = byte_table[0][before & 255] ^ (before >> 8);
        }
    shift_table(shift_long, BLOCK_LONG);
    shift_table(shift_short, BLOCK_SHORT);
    extend = crc32c_extend_table;
    implementation = "table";
#if defined(__x86_64__) || defined(__aarch64__)
    if (has_hardware()) {
        extend = extend_hardware;
#if defined(__x86_64__)
        implementation = "sse4.2";
#else
        implementation = "armv8";
#endif
    }
#endif
}

uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size)
{
    return extend(crc, bytes, size);
}

const char *crc32c_implementation(void)
{
    return implementation;
}
