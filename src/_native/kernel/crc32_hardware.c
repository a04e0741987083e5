/* CRC-32 by carry-less multiplication where the processor has it, else by table.
 *
 * No processor of x86-64 has an instruction for this polynomial. Four accumulators (crc_folding.h)
 * go side by side over the message, so that the multiplications need not wait for each other.
 */
#include "crc32_hardware.h"

#if defined(__x86_64__)
#include "crc_folding.h"
#endif

#define POLYNOMIAL 0xEDB88320u

static uint32_t table[CRC_SLICES][256];
static struct crc_implementation runnable[4];
static crc_function *extend;

static uint32_t extend_table(uint32_t crc, const uint8_t *bytes, size_t size)
{
    return ~crc_by_table(table, ~crc, bytes, size);
}

#if defined(__x86_64__)

enum { FOLD_MIN = 64, WIDE_MIN = 256 }; /* bytes from which on the longer way is the faster */

static struct crc_fold_key key_16, key_32, key_64, key_128;

/* From an accumulator and what follows it to the CRC: one by one, and by table what is left. */
CRC_FOLDS static uint32_t finish(__m128i accumulator, const uint8_t *bytes, size_t size)
{
    uint8_t folded[16];
    const __m128i key = crc_load_key(&key_16);
    for (; size >= 16; size -= 16, bytes += 16)
        accumulator = crc_fold(accumulator, key, crc_load(bytes));
    _mm_storeu_si128((__m128i *)folded, accumulator);
    return ~crc_by_table(table, crc_by_table(table, 0, folded, sizeof folded), bytes, size);
}

CRC_FOLDS static uint32_t extend_pclmul(uint32_t crc, const uint8_t *bytes, size_t size)
{
    if (size < FOLD_MIN)
        return extend_table(crc, bytes, size);
    const __m128i far = crc_load_key(&key_64), near = crc_load_key(&key_16);
    __m128i a = _mm_xor_si128(crc_load(bytes), _mm_cvtsi32_si128((int)~crc));
    __m128i b = crc_load(bytes + 16), c = crc_load(bytes + 32), d = crc_load(bytes + 48);
    for (size -= 64, bytes += 64; size >= 64; size -= 64, bytes += 64) {
        a = crc_fold(a, far, crc_load(bytes));
        b = crc_fold(b, far, crc_load(bytes + 16));
        c = crc_fold(c, far, crc_load(bytes + 32));
        d = crc_fold(d, far, crc_load(bytes + 48));
    }
    d = crc_fold(crc_fold(crc_fold(a, near, b), near, c), near, d);
    return finish(d, bytes, size);
}

CRC_FOLDS_WIDE static uint32_t extend_vpclmul(uint32_t crc, const uint8_t *bytes, size_t size)
{
    if (size < WIDE_MIN)
        return extend_pclmul(crc, bytes, size);
    const __m256i far = _mm256_broadcastsi128_si256(crc_load_key(&key_128));
    const __m256i near = _mm256_broadcastsi128_si256(crc_load_key(&key_32));
    __m256i start = _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)~crc));
    __m256i a = _mm256_xor_si256(crc_load_wide(bytes), start);
    __m256i b = crc_load_wide(bytes + 32), c = crc_load_wide(bytes + 64);
    __m256i d = crc_load_wide(bytes + 96);
    for (size -= 128, bytes += 128; size >= 128; size -= 128, bytes += 128) {
        a = crc_fold_wide(a, far, crc_load_wide(bytes));
        b = crc_fold_wide(b, far, crc_load_wide(bytes + 32));
        c = crc_fold_wide(c, far, crc_load_wide(bytes + 64));
        d = crc_fold_wide(d, far, crc_load_wide(bytes + 96));
    }
    d = crc_fold_wide(crc_fold_wide(crc_fold_wide(a, near, b), near, c), near, d);
    __m128i folded = crc_fold(_mm256_castsi256_si128(d), crc_load_key(&key_16),
                              _mm256_extracti128_si256(d, 1));
    _mm256_zeroupper(); /* gcc does not in a function with a target of its own; SSE code waits */
    return finish(folded, bytes, size);
}

#endif

void crc32_init(void)
{
    struct crc_implementation *next = runnable;
    crc_fill_table(table, POLYNOMIAL);
#if defined(__x86_64__)
    key_16 = crc_fold_key(16, POLYNOMIAL);
    key_32 = crc_fold_key(32, POLYNOMIAL);
    key_64 = crc_fold_key(64, POLYNOMIAL);
    key_128 = crc_fold_key(128, POLYNOMIAL);
    const int folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
    if (folds && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq"))
        *next++ = (struct crc_implementation){"vpclmul", extend_vpclmul};
    if (folds)
        *next++ = (struct crc_implementation){"pclmul", extend_pclmul};
#endif
    *next++ = (struct crc_implementation){"table", extend_table};
    *next = (struct crc_implementation){NULL, NULL};
    extend = runnable[0].extend;
}

uint32_t crc32_extend(uint32_t crc, const uint8_t *bytes, size_t size)
{
    return extend(crc, bytes, size);
}

const struct crc_implementation *crc32_implementations(void)
{
    return runnable;
}
