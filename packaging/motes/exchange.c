#include "exchange.h"

#include <string.h>

#define MUST(holds)          \
    do {                     \
        if (!(holds)) return __LINE__; \
    } while (0)

enum { READING = 4 };

/* Static: a mote's stack is small. */
static antedate_dot15d4_key sender, receiver;
static antedate_dot15d4_slot sends, expects;

static const uint8_t octets[16] = "a key of a plant";
static const uint8_t node[8] = {0x02, 0, 0, 0, 0, 0, 0, 0x07};
static const char text[] = "temperature 21.5";

/* A data frame to the short address 1, secured at `level` in a slot; zeros where the MIC comes. */
static size_t lay_out(uint8_t frame[ANTEDATE_DOT15D4_FRAME_MAX], uint8_t level, size_t mic) {
    const antedate_dot15d4_protection protection = {level, 1, 1, 1, 0, {0}, 0};
    static const uint8_t header[] = {0x69, 0xe8, 1, 0xcd, 0xab, 0x01, 0x00};
    size_t len = sizeof header;
    memset(frame, 0, ANTEDATE_DOT15D4_FRAME_MAX);
    memcpy(frame, header, len);
    for (int i = 0; i < 8; i++) frame[len++] = node[7 - i];
    len += antedate_dot15d4_security_header(&protection, frame + len);
    memcpy(frame + len, text, sizeof text - 1);
    return len + sizeof text - 1 + mic;
}

int exchange(ccm_star other) {
    const antedate_bytes key = {octets, sizeof octets};
    static uint8_t frame[ANTEDATE_DOT15D4_FRAME_MAX], whole[ANTEDATE_DOT15D4_FRAME_MAX];
    uint64_t asn = 1;
    MUST(antedate_dot15d4_key_init(&sender, key, 1, 1) == ANTEDATE_OK);
    MUST(antedate_dot15d4_key_init(&receiver, key, 1, 1) == ANTEDATE_OK);
    MUST(antedate_dot15d4_slot_init(&sends) == ANTEDATE_OK);
    MUST(antedate_dot15d4_slot_init(&expects) == ANTEDATE_OK);
    for (uint8_t level = 1; level <= 7; level++) {
        if (level == 4) continue;
        const size_t mic = (size_t)2 << (level & 3), len = lay_out(frame, level, mic), known = len - mic - READING;
        antedate_dot15d4_parts parts;
        antedate_bytes sealed;

        /* All but the reading is known before the slot, on both sides. */
        asn += 101;
        MUST(antedate_dot15d4_prepare(&sender, &sends, node, asn, frame, len, known) == ANTEDATE_OK);
        MUST(antedate_dot15d4_expect(&receiver, &expects, node, asn, frame, len, known, 0) == ANTEDATE_OK);
        while (antedate_dot15d4_step(&sender, &sends, 1) > 0)
            ;
        while (antedate_dot15d4_step(&receiver, &expects, 1) > 0)
            ;
        MUST(antedate_dot15d4_seal(&sender, &sends, (antedate_bytes){frame + known, READING}, &sealed) == ANTEDATE_OK);
        MUST(sealed.len == len);

        /* A forgery is refused, and the frame still expected. */
        memcpy(whole, sealed.data, len);
        whole[len - 1] ^= 1;
        MUST(antedate_dot15d4_unsecure(&receiver, &expects, node, asn, whole, len) == ANTEDATE_UNAUTHENTIC);
        memcpy(whole, sealed.data, len);
        MUST(antedate_dot15d4_unsecure(&receiver, &expects, node, asn, whole, len) == ANTEDATE_OK);
        MUST(antedate_dot15d4_read(sealed.data, len, &parts) == ANTEDATE_OK);
        MUST(parts.protection.level == level && parts.mic_len == mic && parts.source_len == 8);
        MUST(memcmp(whole + parts.header_len, text, parts.payload_len) == 0);

        if (other) {
            uint8_t nonce[13];
            const size_t open = level > 4 ? parts.open_len : len - mic;
            memcpy(nonce, node, 8);
            for (int i = 0; i < 5; i++) nonce[8 + i] = (uint8_t)(asn >> (32 - 8 * i));
            memcpy(whole, frame, len);
            MUST(other(octets, nonce, whole, open, whole + open, len - mic - open, whole + len - mic, mic) == 0);
            MUST(memcmp(whole, sealed.data, len) == 0);
        }

        /* The same without preparation, in the next slot. */
        asn++;
        MUST(antedate_dot15d4_secure(&sender, node, asn, frame, len) == ANTEDATE_OK);
        MUST(antedate_dot15d4_secure(&sender, node, asn, frame, len) == ANTEDATE_SPENT);
        MUST(antedate_dot15d4_unsecure(&receiver, NULL, node, asn, frame, len) == ANTEDATE_OK);
        MUST(memcmp(frame + parts.header_len, text, parts.payload_len) == 0);
    }
    MUST(antedate_dot15d4_slot_wipe(&sends) == ANTEDATE_OK && antedate_dot15d4_slot_wipe(&expects) == ANTEDATE_OK);
    MUST(antedate_dot15d4_key_wipe(&sender) == ANTEDATE_OK && antedate_dot15d4_key_wipe(&receiver) == ANTEDATE_OK);
    return 0;
}
