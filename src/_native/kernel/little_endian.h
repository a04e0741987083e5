/* Little-endian loads from any address; one instruction where the processor is little-endian. */
#ifndef BROKER_LITTLE_ENDIAN_H
#define BROKER_LITTLE_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline uint32_t load32_little(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline uint64_t load64_little(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

#endif
