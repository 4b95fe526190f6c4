/* The examples' part that is the same on every operating system. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "antedate_dot15d4.h"

/* CCM* of the operating system, for comparison: encrypts `len` bytes of `data` in place and writes a MIC of
 * `mic_len` bytes. Returns 0. */
typedef int (*ccm_star)(const uint8_t key[16], const uint8_t nonce[13], const uint8_t *aad, size_t aad_len, uint8_t *data,
                        size_t len, uint8_t *mic, size_t mic_len);

/* Secures frames of a TSCH cell, prepared and not, unsecures them, refuses a forgery, and compares
 * with `other` if it is not null. Returns 0, or the line of the first fault. */
int exchange(ccm_star other);

#endif
