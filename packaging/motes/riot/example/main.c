/* Secures frames by Antedate and by RIOT, and compares them. */
/* The examples' shared part. */
#include "../../exchange.c"

#include "crypto/ciphers.h"
#include "crypto/modes/ccm.h"

#include <stdio.h>
#include <string.h>

static int riot_ccm(const uint8_t key[16], const uint8_t nonce[13], const uint8_t *aad, size_t aad_len, uint8_t *data,
                    size_t len, uint8_t *mic, size_t mic_len) {
    static uint8_t out[ANTEDATE_DOT15D4_FRAME_MAX + 16];
    cipher_t cipher;
    if (cipher_init(&cipher, CIPHER_AES, key, 16) != CIPHER_INIT_SUCCESS) return 1;
    int made = cipher_encrypt_ccm(&cipher, aad, (uint32_t)aad_len, (uint8_t)mic_len, 2, nonce, 13, data, len, out);
    if (made != (int)(len + mic_len)) return 2;
    memcpy(data, out, len);
    memcpy(mic, out + len, mic_len);
    return 0;
}

int main(void) {
    int line = exchange(riot_ccm);
    if (line == 0)
        printf("antedate %s: frames equal those of cipher_encrypt_ccm\n", antedate_version());
    else
        printf("antedate %s: failed at exchange.c:%d\n", antedate_version(), line);
    return line;
}
