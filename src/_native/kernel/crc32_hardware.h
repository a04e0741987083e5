/* CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320), that of zlib and of Kafka's message sets. */
#ifndef BROKER_CRC32_HARDWARE_H
#define BROKER_CRC32_HARDWARE_H

#include "kernel/crc_polynomial.h"

/* Builds the tables and picks the fastest implementation this processor has. Call once, first. */
void crc32_init(void);

/* The CRC of `size` bytes that follow bytes whose CRC is `crc` (0 to begin). */
uint32_t crc32_extend(uint32_t crc, const uint8_t *bytes, size_t size);

/* What this processor can run, fastest first, "table" last; a name of NULL ends the list. */
const struct crc_implementation *crc32_implementations(void);

#endif
