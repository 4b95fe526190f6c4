/* The example's driver on a simulated CC2538, below a library that has no AES of its own. Prints
 * the packets in hexadecimal digits; the exit code is the line of the first wrong result. */
#include "antedate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The engine: its registers by number, the key store, and what it was told to fail at. */
static uint32_t registers[0x800 / 4];
static uint8_t store[16];
static int is_stored;
static enum { SOUND, SILENT, KEY_ERROR, BUS_ERROR } fault;
static const void *addresses[64];
static unsigned blocks;

#define AT(address) registers[((uint32_t)(address)-0x4008b000u) / 4]
#define STATUS AT(0x4008b790)

/* The DMA's addresses have 32 bits: numbers of pointers. */
static uint32_t address_of(const void *pointer) {
    static uint32_t next;
    next = (next + 1) % 64;
    addresses[next] = pointer;
    return next;
}

static uint8_t times(uint8_t a, uint8_t b) {
    uint8_t product = 0;
    for (; b; b >>= 1) {
        product = (uint8_t)(product ^ (b & 1 ? a : 0));
        a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1b : 0));
    }
    return product;
}

/* FIPS 197 section 5.1.1: the inverse, a to the power of 254, and the affine map. */
static uint8_t substitute(uint8_t a) {
    uint8_t inverse = 1, sum = 0x63;
    for (int i = 0; i < 254; i++) inverse = times(inverse, a);
    for (int i = 0; i < 5; i++) sum = (uint8_t)(sum ^ (inverse << i | inverse >> (8 - i)));
    return sum;
}

static void aes(const uint8_t key[16], uint8_t block[16]) {
    uint8_t round_key[16], state[16], rcon = 1;
    memcpy(round_key, key, 16);
    for (int i = 0; i < 16; i++) block[i] ^= round_key[i];
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < 16; i++) state[i] = substitute(block[(i + 4 * (i % 4)) % 16]);
        for (int i = 0; i < 16; i++) {
            const uint8_t *column = state + i / 4 * 4;
            uint8_t mixed = (uint8_t)(times(column[i % 4], 2) ^ times(column[(i + 1) % 4], 3) ^ column[(i + 2) % 4] ^
                                      column[(i + 3) % 4]);
            block[i] = round < 10 ? mixed : state[i];
        }
        for (int i = 0; i < 4; i++)
            round_key[i] = (uint8_t)(round_key[i] ^ substitute(round_key[12 + (i + 1) % 4]) ^ (i == 0 ? rcon : 0));
        for (int i = 4; i < 16; i++) round_key[i] ^= round_key[i - 4];
        rcon = times(rcon, 2);
        for (int i = 0; i < 16; i++) block[i] ^= round_key[i];
    }
}

static uint32_t reading(uint32_t at) { return AT(at); }

static void writing(uint32_t at, uint32_t value) {
    AT(at) = value;
    switch (at) {
    case 0x4008b404: /* written areas: ones clear */
        is_stored = 0;
        AT(at) = 0;
        break;
    case 0x4008b788: /* clears interrupts */
        STATUS &= ~value;
        break;
    case 0x4008b40c: /* the key to read */
        if (!is_stored) STATUS |= 1u << 29;
        break;
    case 0x4008b00c: /* data in: a key */
        if (AT(0x4008b700) != 1 || fault == SILENT) break;
        if (fault == KEY_ERROR || AT(0x4008b400) != 1 || value != 16) {
            STATUS |= 1u << 30;
            break;
        }
        memcpy(store, addresses[AT(0x4008b004)], 16);
        is_stored = 1;
        AT(0x4008b404) = 1;
        STATUS |= 1;
        break;
    case 0x4008b02c: /* data out: all is set */
        if (fault == BUS_ERROR || AT(0x4008b700) != 2 || AT(0x4008b550) != 4 || AT(0x4008b554) != 16 || !AT(0x4008b000)) {
            STATUS |= 1u << 31;
            break;
        }
        uint8_t block[16];
        memcpy(block, addresses[AT(0x4008b004)], 16);
        aes(store, block);
        memcpy((uint8_t *)(uintptr_t)addresses[AT(0x4008b024)], block, 16);
        blocks++;
        STATUS |= 1;
        break;
    default:
        break;
    }
}

#define CC2538_READ(at) reading(at)
#define CC2538_WRITE(at, value) writing(at, value)
#define CC2538_ADDRESS(pointer) address_of(pointer)
#include "cc2538_aes.c"

static void must(int line, int holds) {
    if (!holds) {
        fprintf(stderr, "cc2538.c: line %d\n", line);
        exit(1);
    }
}
#define MUST(holds) must(__LINE__, (holds))

static void show(const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len; i++) printf("%02x", data[i]);
}

static const uint8_t octets[16] = "sixteen byte key", salt[12] = "salt", header[] = "header";
static const antedate_bytes key = {octets, 16}, initial = {salt, 12}, aad = {header, 6};
static antedate_sealer sealer;
static antedate_opener opener;
static uint8_t plain[40], sealed[40], tag[16];

static antedate_result seal(uint64_t number) {
    antedate_result result = antedate_prepare(&sealer, number);
    while (antedate_step(&sealer, 1) > 0)
        ;
    return result != ANTEDATE_OK ? result : antedate_seal(&sealer, aad, plain, sealed, sizeof plain, tag);
}

int main(void) {
    static const uint8_t zeros[40];
    for (unsigned i = 0; i < sizeof plain; i++) plain[i] = (uint8_t)('a' + i % 26);

    /* Without an engine there is no context. */
    MUST(antedate_sealer_init(&sealer, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_ENGINE);
    MUST(antedate_set_aes(NULL, NULL) == ANTEDATE_ARGUMENT);
    MUST(antedate_set_aes(cc2538_aes, NULL) == ANTEDATE_OK);
    MUST(antedate_sealer_init(&sealer, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_OK);
    MUST(antedate_opener_init(&opener, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_OK);
    MUST(seal(1) == ANTEDATE_OK && blocks > 5);
    show(sealed, sizeof sealed);
    show(tag, 8);
    printf("\n");

    /* In place, with a front, and opened again. */
    const size_t length = 40;
    const antedate_front front = {aad, {plain, 32}, &length, 1, 0, 0};
    antedate_bytes ciphertext;
    MUST(antedate_prepare_front(&sealer, 2, &front) == ANTEDATE_OK);
    while (antedate_step(&sealer, 1) > 0)
        ;
    MUST(antedate_seal_front(&sealer, (antedate_bytes){plain + 32, 8}, &ciphertext, tag) == ANTEDATE_OK);
    show(ciphertext.data, ciphertext.len);
    show(tag, 8);
    printf("\n");
    memcpy(sealed, ciphertext.data, sizeof sealed);
    MUST(antedate_expect(&opener, 2) == ANTEDATE_OK && antedate_opener_step(&opener, 9) > 0);
    MUST(antedate_open(&opener, aad, sealed, sealed, sizeof sealed, tag) == ANTEDATE_OK);
    MUST(memcmp(sealed, plain, sizeof plain) == 0);

    /* Each failure ends the contexts; nothing comes out, prepared or not. */
    for (int i = SILENT; i <= BUS_ERROR; i++) {
        MUST(antedate_prepare(&sealer, 3) == ANTEDATE_OK && antedate_step(&sealer, 1) > 0);
        fault = i;
        memset(sealed, 0xff, sizeof sealed);
        memset(tag, 0xff, sizeof tag);
        MUST(antedate_seal(&sealer, aad, plain, sealed, sizeof plain, tag) == ANTEDATE_ENGINE);
        MUST(memcmp(sealed, zeros, sizeof sealed) == 0 && memcmp(tag, zeros, 8) == 0);
        fault = SOUND;
        MUST(seal(4) == ANTEDATE_ENGINE && antedate_step(&sealer, 1) == 0);
        MUST(antedate_expect(&opener, 4) == ANTEDATE_ENGINE && antedate_expect_front(&opener, 4, &front) == ANTEDATE_ENGINE);
        MUST(antedate_open(&opener, aad, plain, sealed, sizeof sealed, tag) == ANTEDATE_ENGINE);
        MUST(antedate_sealer_wipe(&sealer) == ANTEDATE_OK && antedate_opener_wipe(&opener) == ANTEDATE_OK);
        MUST(antedate_sealer_init(&sealer, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_OK);
        MUST(antedate_opener_init(&opener, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_OK);
        /* A failure between an opener's preparation and its packet. */
        MUST(antedate_expect(&opener, 5) == ANTEDATE_OK && antedate_opener_step(&opener, 9) > 0);
        fault = i;
        memset(sealed, 0xff, sizeof sealed);
        MUST(antedate_open(&opener, aad, plain, sealed, sizeof sealed, tag) == ANTEDATE_ENGINE);
        MUST(memcmp(sealed, zeros, sizeof sealed) == 0);
        fault = SOUND;
        MUST(antedate_sealer_wipe(&sealer) == ANTEDATE_OK && antedate_opener_wipe(&opener) == ANTEDATE_OK);
        MUST(antedate_sealer_init(&sealer, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_OK);
        MUST(antedate_opener_init(&opener, ANTEDATE_AES_128_CCM_8, key, initial) == ANTEDATE_OK);
    }
    return 0;
}
