/* The C library on a Cortex-M3: what each call of AES-128-CCM_8 costs, with the names of
 * `programs/src/interface.rs`, which measures the same in Rust. The exit code is the line of the
 * first wrong answer. */
#include "antedate.h"
#include "mote.h"

static antedate_sealer sealer;
static antedate_opener opener;
static uint8_t plain[128], sealed[128], opened[128];
static uint8_t tag[ANTEDATE_TAG_MAX];

/* The associated data of a DTLS 1.2 record. */
static const uint8_t header[13] = {0, 1, 0, 0, 0, 0, 0, 5, 23, 254, 253, 0, 16};
static const uint8_t octets[16] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
static const uint8_t initial[12] = {'m', 'o', 't', 'e'};

#define MUST(condition)                     \
    do {                                    \
        if (!(condition)) leave(__LINE__); \
    } while (0)

static void is_payload(const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len; i++) MUST(data[i] == plain[i]);
}

void program(void) {
    const antedate_bytes key = {octets, sizeof octets}, salt = {initial, sizeof initial};
    const antedate_bytes aad = {header, sizeof header};
    uint32_t cost, steps;
    uint64_t number = 0;
    antedate_result result;

    for (unsigned i = 0; i < sizeof plain; i++) plain[i] = (uint8_t)(i * 7);
    COST(cost, );
    COST(cost, );
    report("nothing", cost);
    MUST(antedate_sealer_bytes() == sizeof sealer && antedate_opener_bytes() == sizeof opener);
    report("sealer-bytes", sizeof sealer);
    report("opener-bytes", sizeof opener);
    COST(cost, result = antedate_sealer_init(&sealer, SUITE, key, salt));
    MUST(result == ANTEDATE_OK);
    MUST(antedate_opener_init(&opener, SUITE, key, salt) == ANTEDATE_OK);

    /* Nothing prepared. */
    COST(cost, result = antedate_prepare(&sealer, ++number);
         result |= antedate_seal(&sealer, aad, plain, sealed, 112, tag));
    report("seal-112", cost);
    MUST(result == ANTEDATE_OK);
    COST(cost, result = antedate_expect(&opener, number);
         result |= antedate_open(&opener, aad, sealed, opened, 112, tag));
    report("open-112", cost);
    MUST(result == ANTEDATE_OK);
    is_payload(opened, 112);

    /* The key stream prepared. */
    MUST(antedate_prepare(&sealer, ++number) == ANTEDATE_OK);
    COST(cost, steps = antedate_step(&sealer, 8));
    report("stream-112-prepare", cost);
    MUST(steps > 0);
    COST(cost, result = antedate_seal(&sealer, aad, plain, sealed, 112, tag));
    report("stream-112-online", cost);
    MUST(result == ANTEDATE_OK);
    MUST(antedate_expect(&opener, number) == ANTEDATE_OK && antedate_opener_step(&opener, 8) > 0);
    COST(cost, result = antedate_open(&opener, aad, sealed, opened, 112, tag));
    report("stream-112-open", cost);
    MUST(result == ANTEDATE_OK);
    is_payload(opened, 112);

    /* In place, the key stream prepared. */
    MUST(antedate_prepare(&sealer, ++number) == ANTEDATE_OK && antedate_step(&sealer, 8) > 0);
    for (unsigned i = 0; i < 112; i++) sealed[i] = plain[i];
    COST(cost, result = antedate_seal(&sealer, aad, sealed, sealed, 112, tag));
    report("stream-112-in-place", cost);
    MUST(result == ANTEDATE_OK);

    /* A front, with the last block new. */
    const size_t length = 112;
    const antedate_front front = {aad, {plain, 96}, &length, 1, 0, 0};
    const antedate_bytes rest = {plain + 96, 16};
    antedate_bytes ciphertext;
    MUST(antedate_prepare_front(&sealer, ++number, &front) == ANTEDATE_OK);
    COST(cost, steps = antedate_step(&sealer, UINT32_MAX));
    report("front-112-96-prepare", cost);
    MUST(steps > 0);
    COST(cost, result = antedate_seal_front(&sealer, rest, &ciphertext, tag));
    report("front-112-96-online", cost);
    MUST(result == ANTEDATE_OK);
    MUST(antedate_expect_front(&opener, number, &front) == ANTEDATE_OK);
    MUST(antedate_opener_step(&opener, UINT32_MAX) > 0);
    COST(cost, result = antedate_open(&opener, aad, ciphertext.data, opened, 112, tag));
    report("front-112-96-open", cost);
    MUST(result == ANTEDATE_OK);
    is_payload(opened, 112);

    tag[0] ^= 1;
    MUST(antedate_expect(&opener, number) == ANTEDATE_OK);
    MUST(antedate_open(&opener, aad, ciphertext.data, opened, 112, tag) == ANTEDATE_UNAUTHENTIC);
    MUST(antedate_sealer_wipe(&sealer) == ANTEDATE_OK && antedate_opener_wipe(&opener) == ANTEDATE_OK);
    leave(0);
}
