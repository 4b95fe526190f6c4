/* A sensor that prepares and seals with a front, and opens the answers: the library's part of this
 * image is its code size. Compiled with NOTHING it does neither, to subtract. */
#include "antedate.h"
#include "mote.h"

static uint8_t data[127], tag[ANTEDATE_TAG_MAX];

#ifndef NOTHING
static const uint8_t header[13];
static antedate_sealer sealer;
static antedate_opener opener;

static antedate_result exchange(void) {
    const antedate_bytes key = {data, 16}, initial = {data, 12}, aad = {header, 13};
    const size_t length = 112;
    const antedate_front front = {aad, {data, 96}, &length, 1, 0, 0};
    antedate_bytes ciphertext;
    antedate_result result = antedate_sealer_init(&sealer, SUITE, key, initial);
    result |= antedate_opener_init(&opener, SUITE, key, initial);
    result |= antedate_prepare_front(&sealer, 1, &front);
    while (antedate_step(&sealer, 1) > 0)
        ;
    result |= antedate_seal_front(&sealer, (antedate_bytes){data + 96, 16}, &ciphertext, tag);
    result |= antedate_expect(&opener, 1);
    while (antedate_opener_step(&opener, 1) > 0)
        ;
    result |= antedate_open(&opener, aad, ciphertext.data, data, 112, tag);
    result |= antedate_sealer_wipe(&sealer);
    return result | antedate_opener_wipe(&opener);
}
#endif

void program(void) {
    for (unsigned i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i ^ tag[0]);
#ifndef NOTHING
    leave((uint32_t)exchange());
#else
    leave(data[3] != 3);
#endif
}
