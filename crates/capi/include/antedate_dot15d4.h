/* Antedate: link-layer security of IEEE 802.15.4 frames (clause 9), prepared before the slot.
 *
 * The caller writes a frame as its stack does: MAC header, auxiliary security header, payload, and
 * room for the MIC. A frame here has no FCS. A key serves all levels and all neighbours; a slot has
 * one prepared frame, to send or to receive.
 *
 *     antedate_dot15d4_key_init(&key, octets, 1, first_asn);      // TSCH: nonces with the slot
 *     antedate_dot15d4_slot_init(&slot);
 *
 *     antedate_dot15d4_prepare(&key, &slot, own_address, asn, frame, len, known);
 *     while (antedate_dot15d4_step(&key, &slot, 1) > 0) ...      // idle time
 *     antedate_dot15d4_seal(&key, &slot, rest, &sealed);         // the slot begins
 *
 *     antedate_dot15d4_secure(&key, own_address, asn, frame, len);   // without preparation
 *
 * Levels 1 to 3 and 5 to 7. Level 4 is refused: its frames can be changed in transit, and the
 * standard removed it. Results, contexts and exceptions are those of antedate.h.
 *
 * Replays: with nonces by slot a frame is authentic in its slot alone. With frame counters the
 * caller compares `frame_counter`, once a frame is authentic, with the highest one of that device
 * and key, and drops one that is not above it.
 */
#ifndef ANTEDATE_DOT15D4_H
#define ANTEDATE_DOT15D4_H

#include "antedate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a key and of a slot, at most; the header of `cargo xtask capi` has the exact numbers. */
#ifndef ANTEDATE_DOT15D4_KEY_BYTES
#define ANTEDATE_DOT15D4_KEY_BYTES 2048
#endif
#ifndef ANTEDATE_DOT15D4_SLOT_BYTES
#define ANTEDATE_DOT15D4_SLOT_BYTES 512
#endif

/* The longest frame that a slot prepares, with its MIC, without its FCS. Longer ones (other PHYs) are
 * secured and unsecured the ordinary way. */
#define ANTEDATE_DOT15D4_FRAME_MAX 125
/* The longest auxiliary security header. */
#define ANTEDATE_DOT15D4_HEADER_MAX 14

/* The auxiliary security header (clause 9.4). */
typedef struct {
    uint8_t level;         /* 1 to 3: a MIC of 4, 8, 16 bytes; 5 to 7: encrypted as well */
    uint8_t key_mode;      /* 0 implicit, 1 index, 2 source of 4 bytes, 3 source of 8 bytes */
    uint8_t key_index;     /* 1 to 255, in modes 1 to 3 */
    uint8_t slotted;       /* 1: the nonce has the slot (TSCH), and the frame no counter */
    uint8_t has_counter;   /* read: 1 if the frame counter is in the frame */
    uint8_t key_source[8]; /* in wire order */
    uint32_t frame_counter;
} antedate_dot15d4_protection;

/* A frame as far as it is readable without its key. */
typedef struct {
    antedate_dot15d4_protection protection; /* level 0: an unsecured frame */
    uint8_t frame_type;                     /* 0 beacon, 1 data, 2 acknowledgment, 3 command */
    uint8_t source_len;                     /* 0, 2 or 8 */
    uint8_t source[8];                      /* most significant byte first */
    uint16_t source_pan;                    /* 0xffff: not in the frame */
    uint16_t header_len;                    /* the MAC header, with its information elements */
    uint16_t open_len;                      /* header, and payload that is never encrypted */
    uint16_t payload_len;                   /* the MAC payload behind the header, without MIC */
    uint16_t mic_len;
} antedate_dot15d4_parts;

/* The memory of a key and of a slot. */
typedef struct {
    uint64_t opaque[(ANTEDATE_DOT15D4_KEY_BYTES + 7) / 8];
} antedate_dot15d4_key;
typedef struct {
    uint64_t opaque[(ANTEDATE_DOT15D4_SLOT_BYTES + 7) / 8];
} antedate_dot15d4_slot;

size_t antedate_dot15d4_key_bytes(void);
size_t antedate_dot15d4_slot_bytes(void);

/* Writes an auxiliary security header (at most 14 bytes; `out` has room for that) and returns its
 * length, or 0 if `protection` has no such level, mode or index. */
size_t antedate_dot15d4_security_header(const antedate_dot15d4_protection *protection, uint8_t *out);

/* Reads a frame. ANTEDATE_FRAME: it is malformed. */
antedate_result antedate_dot15d4_read(const uint8_t *frame, size_t len, antedate_dot15d4_parts *parts);

/* `source` below is the sender's address in nonces: the 8 bytes of its extended address, most
 * significant first. In a TSCH frame with a short source address it is made from that. */
antedate_result antedate_dot15d4_short_source(uint16_t pan, uint16_t address, uint8_t out[8]);

/* Makes a key of 16 bytes. `slotted` tells the kind of its nonces: 1 slots (TSCH), 0 frame
 * counters; frames of the other kind are refused, since both could give the same nonce. `next` is
 * the lowest slot or frame counter for sending: above all that were used with the key, also before
 * a restart. */
antedate_result antedate_dot15d4_key_init_sized(antedate_dot15d4_key *key, size_t bytes, antedate_bytes octets,
                                                int32_t slotted, uint64_t next);
#define antedate_dot15d4_key_init(key, octets, slotted, next) \
    antedate_dot15d4_key_init_sized((key), sizeof *(key), (octets), (slotted), (next))
antedate_result antedate_dot15d4_key_wipe(antedate_dot15d4_key *key);

/* Makes an empty slot. */
antedate_result antedate_dot15d4_slot_init_sized(antedate_dot15d4_slot *slot, size_t bytes);
#define antedate_dot15d4_slot_init(slot) antedate_dot15d4_slot_init_sized((slot), sizeof *(slot))
antedate_result antedate_dot15d4_slot_wipe(antedate_dot15d4_slot *slot);

/* Secures a frame in place: `len` bytes, the MIC's at the end included. `asn` is the slot of the
 * transmission, unused with a frame counter, which is in the frame. The numbers of a key rise:
 * ANTEDATE_SPENT for one that is not above all before. A frame that is sent again is sent as it is.
 * ANTEDATE_FRAME: malformed, unsecured, of level 4, or with a nonce of the other kind. */
antedate_result antedate_dot15d4_secure(antedate_dot15d4_key *key, const uint8_t source[8], uint64_t asn,
                                        uint8_t *frame, size_t len);

/* Unsecures a frame in place. `slot` is null or a slot, whose preparation is used if it is for this
 * frame. `source` is the sender's, from the table of devices. ANTEDATE_UNAUTHENTIC: forged or
 * damaged; the frame becomes zeros, and the slot still waits. */
antedate_result antedate_dot15d4_unsecure(antedate_dot15d4_key *key, antedate_dot15d4_slot *slot,
                                          const uint8_t source[8], uint64_t asn, uint8_t *frame, size_t len);

/* Begins to prepare a frame of `len` bytes to send, MIC included, whose first `known` bytes are
 * final; at least its header with the auxiliary security header is. The frame is copied. The number is
 * spent when the frame is sealed, so a frame that turns out differently is prepared again or secured
 * by antedate_dot15d4_secure. */
antedate_result antedate_dot15d4_prepare(antedate_dot15d4_key *key, antedate_dot15d4_slot *slot,
                                         const uint8_t source[8], uint64_t asn, const uint8_t *frame, size_t len,
                                         size_t known);

/* Seals the prepared frame, which continues with `rest`. It stays in the slot, at `sealed`, until the
 * next preparation or wipe. An unfinished preparation is completed. */
antedate_result antedate_dot15d4_seal(antedate_dot15d4_key *key, antedate_dot15d4_slot *slot, antedate_bytes rest,
                                      antedate_bytes *sealed);

/* Begins to prepare for a frame like `sample` (the neighbour's last one, say), whose first `known`
 * bytes are predicted, with `len` or `other` bytes (MIC included; 0: no other length). With frame
 * counters the sample has the counter that is expected. */
antedate_result antedate_dot15d4_expect(antedate_dot15d4_key *key, antedate_dot15d4_slot *slot,
                                        const uint8_t source[8], uint64_t asn, const uint8_t *sample, size_t len,
                                        size_t known, size_t other);

/* Does at most `budget` block encryptions of a preparation and returns their number; 0 if none is
 * left, or the slot is not for this key. A frame whose bytes are all known is sealed ahead. */
uint32_t antedate_dot15d4_step(antedate_dot15d4_key *key, antedate_dot15d4_slot *slot, uint32_t budget);

#ifdef __cplusplus
}
#endif

#endif
