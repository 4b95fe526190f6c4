/* Seals a payload for MQTT in the form that `antedate mqtt sub` and any reader of COSE_Encrypt0
 * (RFC 9052) open. Writes the payload of a PUBLISH to standard output, for any MQTT library.
 *
 *     mqtt_publisher KEY BASE PUBLISHER EPOCH TOPIC NUMBER PAYLOAD
 *
 * KEY (16 bytes) and BASE (13 bytes) come from HKDF for this publisher and epoch, in hexadecimal
 * digits; see the manual's chapter on MQTT. NUMBER must never be used twice with them: a device
 * stores the next one in nonvolatile memory.
 */
#include "antedate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 8

/* A minimal CBOR writer: a head (RFC 8949 section 3) and bytes, in memory of sufficient length. */
static uint8_t *head(uint8_t *out, unsigned major, size_t value) {
    major <<= 5;
    if (value < 24) {
        *out++ = (uint8_t)(major | value);
    } else if (value < 256) {
        *out++ = (uint8_t)(major | 24);
        *out++ = (uint8_t)value;
    } else {
        *out++ = (uint8_t)(major | 25);
        *out++ = (uint8_t)(value >> 8);
        *out++ = (uint8_t)value;
    }
    return out;
}

static uint8_t *string(uint8_t *out, unsigned major, const void *bytes, size_t len) {
    out = head(out, major, len);
    memcpy(out, bytes, len);
    return out + len;
}

enum { UNSIGNED = 0, BYTES = 2, TEXT = 3, ARRAY = 4, MAP = 5 };

static int hex(const char *digits, uint8_t *out, size_t len) {
    if (strlen(digits) != 2 * len)
        return 0;
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        if (sscanf(digits + 2 * i, "%2x", &byte) != 1)
            return 0;
        out[i] = (uint8_t)byte;
    }
    return 1;
}

int main(int argc, char **argv) {
    /* { 1: 10 }: AES-CCM-16-64-128 */
    static const uint8_t protected_header[] = {0xa1, 0x01, 0x0a};
    static antedate_sealer sealer;
    static uint8_t aad[2048], external[1024], out[2048], sealed[1024];
    uint8_t key[16], base[13], number[8], kid[64], tag[ANTEDATE_TAG_MAX];
    uint8_t *at, *end;

    if (argc != 8 || !hex(argv[1], key, sizeof key) || !hex(argv[2], base, sizeof base)) {
        fprintf(stderr, "mqtt_publisher KEY BASE PUBLISHER EPOCH TOPIC NUMBER PAYLOAD\n");
        return 2;
    }
    const char *publisher = argv[3], *topic = argv[5], *payload = argv[7];
    unsigned long epoch = strtoul(argv[4], NULL, 10);
    unsigned long long sequence = strtoull(argv[6], NULL, 10);
    size_t len = strlen(payload);
    if (strlen(publisher) > 63 || epoch > 127 || strlen(topic) > 800 || len > 900 || sequence == 0) {
        fprintf(stderr, "mqtt_publisher: too long, an epoch above 127, or the number 0\n");
        return 2;
    }
    for (int i = 0; i < 8; i++)
        number[i] = (uint8_t)(sequence >> (56 - 8 * i));

    /* << [topic, publisher, epoch, number] >>, within [ "Encrypt0", protected header, external
     * associated data ] */
    at = head(external, ARRAY, 4);
    at = string(at, TEXT, topic, strlen(topic));
    at = string(at, BYTES, publisher, strlen(publisher));
    at = head(at, UNSIGNED, epoch);
    at = string(at, BYTES, number, sizeof number);
    end = head(aad, ARRAY, 3);
    end = string(end, TEXT, "Encrypt0", 8);
    end = string(end, BYTES, protected_header, sizeof protected_header);
    end = string(end, BYTES, external, (size_t)(at - external));

    const antedate_bytes the_key = {key, sizeof key}, the_base = {base, sizeof base};
    const antedate_bytes the_aad = {aad, (size_t)(end - aad)};
    /* AES-CCM-16-64-128 is CCM with nonces of 13 bytes and tags of 8, as level 6 of IEEE
     * 802.15.4. */
    if (antedate_sealer_init(&sealer, ANTEDATE_CCM_STAR_64, the_key, the_base) != ANTEDATE_OK ||
        antedate_prepare(&sealer, sequence) != ANTEDATE_OK) {
        fprintf(stderr, "mqtt_publisher: cannot prepare\n");
        return 1;
    }
    /* Idle time: the cipherstream is made before the payload is known. */
    while (antedate_step(&sealer, 1) > 0)
        ;
    if (antedate_seal(&sealer, the_aad, (const uint8_t *)payload, sealed, len, tag) != ANTEDATE_OK) {
        fprintf(stderr, "mqtt_publisher: cannot seal\n");
        return 1;
    }
    antedate_sealer_wipe(&sealer);

    /* [ protected header, { 4: epoch and publisher, 6: number without leading zeros },
     * ciphertext ] */
    size_t zeros = 0;
    while (number[zeros] == 0)
        zeros++;
    kid[0] = (uint8_t)epoch;
    memcpy(kid + 1, publisher, strlen(publisher));
    at = head(out, ARRAY, 3);
    at = string(at, BYTES, protected_header, sizeof protected_header);
    at = head(at, MAP, 2);
    at = head(at, UNSIGNED, 4);
    at = string(at, BYTES, kid, 1 + strlen(publisher));
    at = head(at, UNSIGNED, 6);
    at = string(at, BYTES, number + zeros, sizeof number - zeros);
    at = head(at, BYTES, len + TAG);
    fwrite(out, 1, (size_t)(at - out), stdout);
    fwrite(sealed, 1, len, stdout);
    fwrite(tag, 1, TAG, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
