/* A sensor that reports a temperature in each cycle. Only six digits of its message are new, so
 * the rest is prepared while the sensor measures. Packets go to standard output: number (8
 * bytes, big-endian), ciphertext, tag.
 *
 *     sensor CYCLES | receiver
 */
#include "antedate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t key[16] = "a key of a plant";
static const uint8_t initial[12] = {'l', 'i', 'n', 'e'};
static const uint8_t header[] = "sensor 7";
static const uint8_t message[] = "{\"sensor\": 7, \"unit\": \"K\", \"temperature\": 000.00, \"status\": \"ok\"}";

/* The hole: the digits. */
static const antedate_hole digits = {1, 42, 48};

/* Simulates a slow converter. */
static void measure(uint32_t cycle, char reading[8]) {
    snprintf(reading, 8, "%03u.%02u", (unsigned)(290 + cycle % 20), (unsigned)(cycle * 37 % 100));
}

static void check(antedate_result result, const char *what) {
    if (result != ANTEDATE_OK) {
        fprintf(stderr, "sensor: %s: %d\n", what, (int)result);
        exit(1);
    }
}

int main(int argc, char **argv) {
    static antedate_sealer sealer;
    const antedate_bytes the_key = {key, sizeof key}, the_initial = {initial, sizeof initial};
    const antedate_template known = {{header, sizeof header - 1}, {message, sizeof message - 1}, &digits, 1};
    unsigned long cycles = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;

    check(antedate_sealer_init(&sealer, ANTEDATE_AES_128_GCM, the_key, the_initial), "init");
    for (unsigned long cycle = 1; cycle <= cycles; cycle++) {
        uint8_t number[8], tag[ANTEDATE_TAG_MAX];
        char reading[8];
        antedate_bytes value = {(const uint8_t *)reading, 6}, ciphertext;

        /* Idle time. A real sensor does one step whenever it is idle. */
        check(antedate_prepare_template(&sealer, cycle, &known), "prepare");
        while (antedate_step(&sealer, 1) > 0)
            ;

        /* The value is known: one block is left. */
        measure((uint32_t)cycle, reading);
        check(antedate_seal_template(&sealer, &value, 1, &ciphertext, tag), "seal");

        for (int i = 0; i < 8; i++)
            number[i] = (uint8_t)((uint64_t)cycle >> (56 - 8 * i));
        fwrite(number, 1, sizeof number, stdout);
        fwrite(ciphertext.data, 1, ciphertext.len, stdout);
        fwrite(tag, 1, antedate_tag_len(ANTEDATE_AES_128_GCM), stdout);
    }
    check(antedate_sealer_wipe(&sealer), "wipe");
    return fflush(stdout) == 0 ? 0 : 1;
}
