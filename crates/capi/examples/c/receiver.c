/* The receiver for `sensor`. It expects the next number of the same template, so that opening
 * also costs one block. Prints each authentic message and counts the others. Exit status 0 if
 * all packets were authentic.
 */
#include "antedate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t key[16] = "a key of a plant";
static const uint8_t initial[12] = {'l', 'i', 'n', 'e'};
static const uint8_t header[] = "sensor 7";
static const uint8_t message[] = "{\"sensor\": 7, \"unit\": \"K\", \"temperature\": 000.00, \"status\": \"ok\"}";
static const antedate_hole digits = {1, 42, 48};

#define LEN (sizeof message - 1)

int main(void) {
    static antedate_opener opener;
    const antedate_bytes the_key = {key, sizeof key}, the_initial = {initial, sizeof initial};
    const antedate_bytes aad = {header, sizeof header - 1};
    const antedate_template known = {aad, {message, LEN}, &digits, 1};
    uint8_t frame[8 + LEN + 16], plain[LEN];
    uint64_t expected = 1;
    unsigned long authentic = 0, refused = 0;

    if (antedate_opener_init(&opener, ANTEDATE_AES_128_GCM, the_key, the_initial) != ANTEDATE_OK)
        return 2;
    for (;;) {
        uint64_t number = 0;

        /* Idle time: the next number and the form of its packet are known. */
        if (antedate_expect_template(&opener, expected, &known) != ANTEDATE_OK)
            return 2;
        while (antedate_opener_step(&opener, 1) > 0)
            ;

        if (fread(frame, 1, sizeof frame, stdin) != sizeof frame)
            break;
        for (int i = 0; i < 8; i++)
            number = number << 8 | frame[i];
        /* An old number is a replay. After a loss the number is higher, and the packet is opened
         * the ordinary way. */
        if (number < expected || (number > expected && antedate_expect(&opener, number) != ANTEDATE_OK)) {
            refused++;
            continue;
        }
        if (antedate_open(&opener, aad, frame + 8, plain, LEN, frame + 8 + LEN) != ANTEDATE_OK) {
            refused++;
            continue;
        }
        expected = number + 1;
        authentic++;
        printf("%.*s\n", (int)LEN, (const char *)plain);
    }
    antedate_opener_wipe(&opener);
    fprintf(stderr, "receiver: %lu authentic, %lu refused\n", authentic, refused);
    return refused == 0 ? 0 : 1;
}
