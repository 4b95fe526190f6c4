/* A TSCH node: reports in secured data frames of IEEE 802.15.4, prepared before their slots, and
 * the sink of the reports, which expects each next frame. A record on the pipe is a slot (8 bytes,
 * big-endian), a length, and a frame without its FCS.
 *
 *     tsch_node report COUNT | tsch_node sink
 */
#include "antedate_dot15d4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTFRAME = 101, READING = 4, MIC = 4 };

static const uint8_t key_octets[16] = "a key of a plant";
/* The node's extended address, most significant byte first. */
static const uint8_t node[8] = {0x02, 0, 0, 0, 0, 0, 0, 0x07};
static const char text[] = "temperature ";

static void check(antedate_result result, const char *what) {
    if (result != ANTEDATE_OK) {
        fprintf(stderr, "tsch_node: %s: %s\n", what, antedate_strerror(result));
        exit(1);
    }
}

/* Header, auxiliary security header, text, zeros for the reading and the MIC. Returns the length. */
static size_t lay_out(uint8_t frame[ANTEDATE_DOT15D4_FRAME_MAX], uint8_t sequence) {
    const antedate_dot15d4_protection protection = {.level = 5, .key_mode = 1, .key_index = 1, .slotted = 1};
    /* Data, secured, acknowledgment requested, one PAN, version 2, short destination, extended source. */
    const uint8_t header[] = {0x69, 0xe8, sequence, 0xcd, 0xab, 0x01, 0x00};
    size_t len = sizeof header;
    memset(frame, 0, ANTEDATE_DOT15D4_FRAME_MAX);
    memcpy(frame, header, len);
    for (int i = 0; i < 8; i++) frame[len++] = node[7 - i];
    len += antedate_dot15d4_security_header(&protection, frame + len);
    memcpy(frame + len, text, sizeof text - 1);
    return len + sizeof text - 1 + READING + MIC;
}

static int report(unsigned long count) {
    static antedate_dot15d4_key key;
    static antedate_dot15d4_slot slot;
    check(antedate_dot15d4_key_init(&key, ((antedate_bytes){key_octets, 16}), 1, 1), "key");
    check(antedate_dot15d4_slot_init(&slot), "slot");
    for (unsigned long i = 1; i <= count; i++) {
        uint8_t frame[ANTEDATE_DOT15D4_FRAME_MAX], record[9];
        char reading[READING + 1];
        antedate_bytes sealed;
        const uint64_t asn = (uint64_t)i * SLOTFRAME;
        const size_t len = lay_out(frame, (uint8_t)i);

        /* Idle time: all but the reading is known. */
        check(antedate_dot15d4_prepare(&key, &slot, node, asn, frame, len, len - MIC - READING), "prepare");
        while (antedate_dot15d4_step(&key, &slot, 1) > 0)
            ;

        /* The slot. */
        snprintf(reading, sizeof reading, "%02u.%u", (unsigned)(20 + i % 10), (unsigned)(i * 7 % 10));
        check(antedate_dot15d4_seal(&key, &slot, (antedate_bytes){(const uint8_t *)reading, READING}, &sealed), "seal");

        for (int at = 0; at < 8; at++) record[at] = (uint8_t)(asn >> (56 - 8 * at));
        record[8] = (uint8_t)sealed.len;
        fwrite(record, 1, sizeof record, stdout);
        fwrite(sealed.data, 1, sealed.len, stdout);
    }
    check(antedate_dot15d4_slot_wipe(&slot), "wipe");
    check(antedate_dot15d4_key_wipe(&key), "wipe");
    return fflush(stdout) == 0 ? 0 : 1;
}

static int sink(void) {
    static antedate_dot15d4_key key;
    static antedate_dot15d4_slot slot;
    unsigned long accepted = 0, refused = 0;
    uint8_t record[9], sample[ANTEDATE_DOT15D4_FRAME_MAX];
    size_t sample_len = 0;
    uint64_t last = 0;
    check(antedate_dot15d4_key_init(&key, ((antedate_bytes){key_octets, 16}), 1, 1), "key");
    check(antedate_dot15d4_slot_init(&slot), "slot");
    while (fread(record, 1, sizeof record, stdin) == sizeof record) {
        uint8_t frame[255];
        uint64_t asn = 0;
        const size_t len = record[8];
        antedate_dot15d4_parts parts;
        for (int at = 0; at < 8; at++) asn = asn << 8 | record[at];
        if (fread(frame, 1, len, stdin) != len) break;
        /* The radio knows the slot. It rises, so an old frame has no slot. The key goes by the frame. */
        if (asn <= last || antedate_dot15d4_read(frame, len, &parts) != ANTEDATE_OK || parts.protection.level != 5 ||
            parts.protection.key_index != 1 || parts.source_len != 8 || memcmp(parts.source, node, 8) != 0) {
            refused++;
            continue;
        }
        uint8_t received[255];
        memcpy(received, frame, len);
        if (antedate_dot15d4_unsecure(&key, &slot, node, asn, frame, len) != ANTEDATE_OK) {
            refused++;
            continue;
        }
        printf("slot %lu: %.*s\n", (unsigned long)asn, (int)parts.payload_len, (const char *)frame + parts.header_len);
        accepted++;
        last = asn;
        /* Idle time: the next frame is like this one, in the same cell, with the next sequence number. */
        if (len <= sizeof sample) {
            memcpy(sample, received, len);
            sample_len = len;
            sample[2]++;
            check(antedate_dot15d4_expect(&key, &slot, node, asn + SLOTFRAME, sample, sample_len, parts.header_len, 0),
                  "expect");
            while (antedate_dot15d4_step(&key, &slot, 1) > 0)
                ;
        }
    }
    fprintf(stderr, "tsch_node: %lu accepted, %lu refused\n", accepted, refused);
    check(antedate_dot15d4_slot_wipe(&slot), "wipe");
    check(antedate_dot15d4_key_wipe(&key), "wipe");
    return refused > 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "sink") == 0) return sink();
    if (argc == 3 && strcmp(argv[1], "report") == 0) return report(strtoul(argv[2], NULL, 10));
    fprintf(stderr, "usage: tsch_node report COUNT | tsch_node sink\n");
    return 2;
}
