/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): the keyed hash
 * that answers a bootstrap server's challenge.
 */
#ifndef WR_BOOT_SIPHASH_H
#define WR_BOOT_SIPHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WR_SIPHASH_BYTES = 16 };

void wr_siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[WR_SIPHASH_BYTES]);

/* Compares in a time that does not depend on the content. */
bool wr_equal_constant_time(const void *a, const void *b, size_t len);

#endif
