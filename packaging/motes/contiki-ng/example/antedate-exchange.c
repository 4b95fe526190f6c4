/* Secures frames by Antedate and by Contiki-NG, and compares them. */
#include "contiki.h"
#include "exchange.h"
#include "lib/ccm-star.h"

#include <stdio.h>
#include <stdlib.h>

static int contiki_ccm(const uint8_t key[16], const uint8_t nonce[13], const uint8_t *aad, size_t aad_len, uint8_t *data,
                       size_t len, uint8_t *mic, size_t mic_len) {
    CCM_STAR.set_key(key);
    CCM_STAR.aead(nonce, data, (uint16_t)len, aad, (uint16_t)aad_len, mic, (uint8_t)mic_len, 1);
    return 0;
}

PROCESS(antedate_exchange, "Antedate");
AUTOSTART_PROCESSES(&antedate_exchange);

PROCESS_THREAD(antedate_exchange, ev, data) {
    PROCESS_BEGIN();
    int line = exchange(contiki_ccm);
    printf("antedate %s: %s", antedate_version(), line == 0 ? "frames equal those of CCM_STAR\n" : "failed");
    if (line != 0) printf(" at exchange.c:%d\n", line);
#ifdef CONTIKI_TARGET_NATIVE
    exit(line != 0);
#endif
    PROCESS_END();
}
