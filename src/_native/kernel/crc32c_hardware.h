/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as RFC 3720 appendix B.4 defines it. */
#ifndef BROKER_CRC32C_HARDWARE_H
#define BROKER_CRC32C_HARDWARE_H

#include "kernel/crc_polynomial.h"

/* Builds the tables and picks the fastest implementation this processor has. Call once, first. */
void crc32c_init(void);

/* The CRC of `size` bytes that follow bytes whose CRC is `crc` (0 to begin). */
uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size);

/* What this processor can run, fastest first, "table" last; a name of NULL ends the list. */
const struct crc_implementation *crc32c_implementations(void);

#endif
