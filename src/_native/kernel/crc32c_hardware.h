/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as RFC 3720 appendix B.4 defines it. */
#ifndef BROKER_CRC32C_HARDWARE_H
#define BROKER_CRC32C_HARDWARE_H

#include <stddef.h>
#include <stdint.h>

/* Builds the tables and picks the fastest implementation this processor has. Call once, first. */
void crc32c_init(void);

/* The CRC of `size` bytes that follow bytes whose CRC is `crc` (0 to begin). */
uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size);

/* The same by table only: what processors without the instruction run, and the other's check. */
uint32_t crc32c_extend_table(uint32_t crc, const uint8_t *bytes, size_t size);

/* "sse4.2", "armv8" or "table". */
const char *crc32c_implementation(void);

#endif
