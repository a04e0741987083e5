/* Folding: a CRC by carry-less multiplication, for any polynomial of degree 32 (x86-64 only).
 *
 * An accumulator of 16 bytes stands for all the message before it. To move it d bytes on is to
 * multiply it by x^8d, and it may be taken modulo the polynomial at any time: its two halves times
 * two constants, added to the 16 bytes that stand there, are an accumulator again. In the end 16
 * bytes are left whose CRC is that of the message; they go the usual way.
 *
 * The product of two reflected words comes out one bit short of 128, which is a factor of x too
 * many; the constants are therefore x^(8d-1) and x^(8d+63).
 */
#ifndef BROKER_CRC_FOLDING_H
#define BROKER_CRC_FOLDING_H

#include <immintrin.h>

#include "crc_polynomial.h"

#define CRC_FOLDS __attribute__((target("sse4.2,pclmul")))
#define CRC_FOLDS_WIDE __attribute__((target("avx2,pclmul,vpclmulqdq")))

/* Constants that move an accumulator `distance` bytes on: for its first and its second half. */
struct crc_fold_key {
    uint64_t first, second;
};

static inline struct crc_fold_key crc_fold_key(uint64_t distance, uint32_t polynomial)
{
    struct crc_fold_key key = {
        (uint64_t)crc_power(8 * distance + 63, polynomial) << 32,
        (uint64_t)crc_power(8 * distance - 1, polynomial) << 32,
    };
    return key;
}

CRC_FOLDS static inline __m128i crc_load_key(const struct crc_fold_key *key)
{
    return _mm_loadu_si128((const __m128i *)key);
}

CRC_FOLDS static inline __m128i crc_fold(__m128i accumulator, __m128i key, __m128i next)
{
    __m128i first = _mm_clmulepi64_si128(accumulator, key, 0x00);
    __m128i second = _mm_clmulepi64_si128(accumulator, key, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

CRC_FOLDS static inline __m128i crc_load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)bytes);
}

/* Two accumulators side by side, both moved by the same distance. */
CRC_FOLDS_WIDE static inline __m256i crc_fold_wide(__m256i accumulators, __m256i key, __m256i next)
{
    __m256i first = _mm256_clmulepi64_epi128(accumulators, key, 0x00);
    __m256i second = _mm256_clmulepi64_epi128(accumulators, key, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(first, second), next);
}

CRC_FOLDS_WIDE static inline __m256i crc_load_wide(const uint8_t *bytes)
{
    return _mm256_loadu_si256((const __m256i *)bytes);
}

#endif
