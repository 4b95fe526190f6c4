/* Antedate: AEAD ciphers with their work done before the data exists.
 *
 * A sealer prepares a packet in idle time, as soon as its number is known, and seals it when the
 * data is ready. An opener does the same for the next received packet. The bytes are those of
 * the standard cipher: the other side does not need Antedate.
 *
 *     antedate_sealer sealer;                                 // static or on the stack, nothing is allocated
 *     antedate_sealer_init(&sealer, ANTEDATE_AES_128_CCM_8, key, salt);
 *     for (uint64_t number = 1;; number++) {
 *         antedate_prepare(&sealer, number);
 *         while (antedate_step(&sealer, 1) > 0) ...           // idle time, in small steps
 *         antedate_seal(&sealer, aad, plain, cipher, len, tag);
 *     }
 *
 * A wrong call returns an error, and its behaviour is never undefined, with three exceptions
 * that no library can detect: pointers must point to as much memory as stated; the memory of a
 * context must hold a context or zeros; and the bytes of a template or a front must stay
 * unchanged until the packet is sealed, opened or dropped.
 *
 * A child of fork() has copies of its parent's sealers, and both would use the same nonces. In the
 * child a call with such a sealer returns ANTEDATE_FORKED, and antedate_step returns 0; only
 * antedate_sealer_wipe works. The child makes sealers of its own, with another key. On Linux the
 * check is a page that the kernel clears in each child; the library for targets without an
 * operating system has no check.
 *
 * A context must not be moved or copied: it contains its own address, and a copy is refused. One
 * thread at a time may use a context. Without antedate_*_wipe a discarded context leaves its key
 * in memory.
 *
 * antedate_dot15d4.h and antedate_dtls.h have frames of IEEE 802.15.4 and records of DTLS 1.2.
 *
 * Timing does not depend on keys or payloads. It depends on lengths, on the shape of the
 * template or front, on the progress of the preparation, and for opening on whether the packet
 * is authentic and fits its template or front.
 */
#ifndef ANTEDATE_H
#define ANTEDATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of payload that a context prepares. A longer packet is sealed and opened the ordinary
 * way. The library must be built with the same value (environment variable ANTEDATE_CAPACITY; a
 * multiple of 64). */
#ifndef ANTEDATE_CAPACITY
#define ANTEDATE_CAPACITY 1536
#endif

/* Bytes of a context with all suites. A library with fewer suites needs less, which
 * antedate_sealer_bytes() and antedate_opener_bytes() return; the header that `cargo xtask capi`
 * writes beside a library has these sizes. */
#ifndef ANTEDATE_CONTEXT_BYTES
#if defined(__x86_64__) || defined(_M_X64)
#define ANTEDATE_CONTEXT_BYTES (ANTEDATE_CAPACITY + 6656)
#else
#define ANTEDATE_CONTEXT_BYTES (ANTEDATE_CAPACITY + 3072)
#endif
#endif
#ifndef ANTEDATE_SEALER_BYTES
#define ANTEDATE_SEALER_BYTES ANTEDATE_CONTEXT_BYTES
#endif
#ifndef ANTEDATE_OPENER_BYTES
#define ANTEDATE_OPENER_BYTES ANTEDATE_CONTEXT_BYTES
#endif

/* The most holes of a template, and the most 16-byte blocks that they touch (counted once for
 * each hole). */
#define ANTEDATE_BLOCKS 8
/* The most lengths of a front. */
#define ANTEDATE_LENGTHS 4
/* The longest payload. */
#define ANTEDATE_PAYLOAD_MAX 65535
/* The longest tag, for buffers that fit any suite. */
#define ANTEDATE_TAG_MAX 16

/* The result of a call. */
typedef int32_t antedate_result;
enum {
    ANTEDATE_OK = 0,
    ANTEDATE_ARGUMENT = 1,     /* a null pointer, or overlapping buffers */
    ANTEDATE_SUITE = 2,        /* an unknown suite, or not in this build */
    ANTEDATE_KEY_LENGTH = 3,   /* see antedate_key_len() */
    ANTEDATE_NONCE_LENGTH = 4, /* see antedate_nonce_len() */
    ANTEDATE_SIZE = 5,         /* the context is too small: header and library come from different builds */
    ANTEDATE_STATE = 6,        /* nothing is prepared, it was used already, or this is not a live context */
    ANTEDATE_SPENT = 7,        /* this number or a later one was prepared before */
    ANTEDATE_TEMPLATE = 8,     /* a hole outside, overlapping holes, a length without a rest */
    ANTEDATE_TOO_LONG = 9,     /* more bytes, holes, blocks or lengths than fit */
    ANTEDATE_MISFIT = 10,      /* the values differ from the holes in number or length */
    ANTEDATE_UNSUPPORTED = 11, /* templates are for suites 16 to 31, fronts for the others */
    ANTEDATE_UNAUTHENTIC = 12, /* the packet is forged or damaged; it is still expected */
    ANTEDATE_FORKED = 13,      /* the parent of this process made the sealer and goes on with its numbers */
    ANTEDATE_ENGINE = 14,      /* the AES engine failed or is not set, see antedate_set_aes() */
    ANTEDATE_FRAME = 15,       /* a malformed frame or record, or one that its key or connection is not for */
    ANTEDATE_REPLAYED = 16,    /* the record was received before, or is older than the window */
    ANTEDATE_FILES = 17,       /* a file of an MQTT client, or its state, has a fault */
    ANTEDATE_REFUSED = 18      /* the payload of MQTT was not sealed, or the message not opened */
};

/* A text for a result, such as "the packet is forged or damaged"; never null. */
const char *antedate_strerror(antedate_result result);
/* The version of the library: "0.1.0". */
const char *antedate_version(void);

/* The suites: bytes of key, nonce, tag. */
enum {
    ANTEDATE_AES_128_CCM_8 = 1,      /* 16, 12,  8   RFC 6655: TLS and DTLS */
    ANTEDATE_AES_128_CCM = 2,        /* 16, 12, 16   RFC 5116 */
    ANTEDATE_AES_256_CCM = 3,        /* 32, 12, 16   RFC 5116 */
    ANTEDATE_CCM_STAR_32 = 4,        /* 16, 13,  4   IEEE 802.15.4, level 5 */
    ANTEDATE_CCM_STAR_64 = 5,        /* 16, 13,  8   IEEE 802.15.4, level 6 */
    ANTEDATE_CCM_STAR_128 = 6,       /* 16, 13, 16   IEEE 802.15.4, level 7 */
    ANTEDATE_AES_128_GCM = 16,       /* 16, 12, 16   NIST SP 800-38D */
    ANTEDATE_AES_256_GCM = 17,       /* 32, 12, 16 */
    ANTEDATE_CHACHA20_POLY1305 = 18, /* 32, 12, 16   RFC 8439 */
    ANTEDATE_AES_128_OCB3 = 19,      /* 16, 12, 16   RFC 7253 */
    ANTEDATE_AEGIS_128L = 32,        /* 16, 16, 16   draft-irtf-cfrg-aegis-aead */
    ANTEDATE_ASCON_AEAD128 = 33      /* 16, 16, 16   NIST SP 800-232 */
};

size_t antedate_key_len(uint32_t suite);
size_t antedate_nonce_len(uint32_t suite);
size_t antedate_tag_len(uint32_t suite);

/* A pointer and a length; data may be null if len is 0. */
typedef struct {
    const uint8_t *data;
    size_t len;
} antedate_bytes;

/* Bytes start to end - 1 of associated data (in_payload == 0) or payload, which are known only
 * when the packet is sent. */
typedef struct {
    int32_t in_payload;
    size_t start;
    size_t end;
} antedate_hole;

/* The known bytes of a packet, with holes anywhere. The bytes inside the holes are ignored. */
typedef struct {
    antedate_bytes aad;
    antedate_bytes payload;
    const antedate_hole *holes;
    size_t hole_count;
} antedate_template;

/* The beginning of a packet: associated data and the front of its payload. CCM authenticates the
 * payload's length first, so every suite needs the possible lengths of the whole payload, front
 * included. If bytes length_start to length_end - 1 of the associated data hold that length,
 * big-endian, they are filled in; both are zero otherwise. */
typedef struct {
    antedate_bytes aad;
    antedate_bytes payload;
    const size_t *lengths;
    size_t length_count;
    size_t length_start;
    size_t length_end;
} antedate_front;

/* The memory of a context. */
typedef struct {
    uint64_t opaque[(ANTEDATE_SEALER_BYTES + 7) / 8];
} antedate_sealer;
typedef struct {
    uint64_t opaque[(ANTEDATE_OPENER_BYTES + 7) / 8];
} antedate_opener;

size_t antedate_sealer_bytes(void);
size_t antedate_opener_bytes(void);

/* A chip's AES engine -------------------------------------------------------------------------- */

/* Encrypts a block in place under a key of 16 bytes, and returns 0; any other value is a failure,
 * after a timeout for example. Never 0 without the ciphertext in `block`: a block that is not
 * encrypted would show the payload. The key stays at its address as long as its context, so an
 * engine may keep it loaded; a key at the same address may have changed after a context was wiped. */
typedef int32_t (*antedate_aes)(void *engine, const uint8_t key[16], uint8_t block[16]);

/* Sets the AES of all suites, with the first argument of its calls. A library built with `--aes
 * callback` has no other, and making a context before is ANTEDATE_ENGINE; any other library returns
 * ANTEDATE_UNSUPPORTED. After a failure all contexts return ANTEDATE_ENGINE, and zeros where a
 * packet would be: wipe them and make them again, with numbers that were not used. */
antedate_result antedate_set_aes(antedate_aes encrypt, void *engine);

/* The sending side ----------------------------------------------------------------------------- */

/* Makes a sealer. `initial` has the length of the suite's nonces. The nonce of a packet is
 * `initial` with the packet's number, 8 bytes big-endian, XORed into its end. So a salt followed
 * by zeros gives salt and number.
 *
 * Each number is prepared once, in increasing order. Across a restart the caller must ensure it:
 * a key must not see the same number again. Wipe a sealer before making it again. */
antedate_result antedate_sealer_init_sized(antedate_sealer *sealer, size_t bytes, uint32_t suite, antedate_bytes key,
                                           antedate_bytes initial);
#define antedate_sealer_init(sealer, suite, key, initial) \
    antedate_sealer_init_sized((sealer), sizeof *(sealer), (suite), (key), (initial))

/* Begins to prepare a packet. An earlier prepared packet that was not sealed is wiped and its
 * number is burnt, even if the new number or template is refused. */
antedate_result antedate_prepare(antedate_sealer *sealer, uint64_t number);
antedate_result antedate_prepare_template(antedate_sealer *sealer, uint64_t number, const antedate_template *known);
antedate_result antedate_prepare_front(antedate_sealer *sealer, uint64_t number, const antedate_front *known);

/* Does at most `budget` units of preparation (a block of the cipher or two) and returns their
 * number; 0 if none is left. */
uint32_t antedate_step(antedate_sealer *sealer, uint32_t budget);

/* Seals a packet with the number of the preparation: `len` bytes from `src` to `dst`, which may be
 * the same, and the tag. Here and in the two functions below, outputs must not overlap any other
 * argument or the sealer otherwise. If the preparation is incomplete, or was for a template or a
 * front, the cost is that of the ordinary cipher. */
antedate_result antedate_seal(antedate_sealer *sealer, antedate_bytes aad, const uint8_t *src, uint8_t *dst, size_t len,
                              uint8_t *tag);

/* Seals the packet of the template: a value for each hole, in the order of the holes. The
 * ciphertext of the whole payload stays in the sealer until the next packet begins or the sealer
 * is wiped. After ANTEDATE_MISFIT the packet can still be sealed. */
antedate_result antedate_seal_template(antedate_sealer *sealer, const antedate_bytes *values, size_t value_count,
                                       antedate_bytes *ciphertext, uint8_t *tag);

/* Seals the packet of the front: its payload is the front followed by `rest`. The ciphertext
 * stays as above. */
antedate_result antedate_seal_front(antedate_sealer *sealer, antedate_bytes rest, antedate_bytes *ciphertext, uint8_t *tag);

/* Ends a sealer and zeroes it. */
antedate_result antedate_sealer_wipe(antedate_sealer *sealer);

/* The receiving side --------------------------------------------------------------------------- */

/* Makes an opener; `initial` is the sealer's. */
antedate_result antedate_opener_init_sized(antedate_opener *opener, size_t bytes, uint32_t suite, antedate_bytes key,
                                           antedate_bytes initial);
#define antedate_opener_init(opener, suite, key, initial) \
    antedate_opener_init_sized((opener), sizeof *(opener), (suite), (key), (initial))

/* Begins to prepare for the next received packet. Numbers may repeat and come in any order: the
 * caller must refuse replays. The packet expected before is dropped, even if the new template or
 * front is refused. */
antedate_result antedate_expect(antedate_opener *opener, uint64_t number);
antedate_result antedate_expect_template(antedate_opener *opener, uint64_t number, const antedate_template *known);
antedate_result antedate_expect_front(antedate_opener *opener, uint64_t number, const antedate_front *known);

uint32_t antedate_opener_step(antedate_opener *opener, uint32_t budget);

/* Opens the expected packet: `len` bytes from `src` to `dst`, which may be the same and must not
 * overlap any other argument otherwise. If the packet is not authentic, `dst` becomes zeros, and
 * the packet is still expected with its preparation. In place, the preparation for a template or a
 * front is not used, and the cost is that of the ordinary cipher. */
antedate_result antedate_open(antedate_opener *opener, antedate_bytes aad, const uint8_t *src, uint8_t *dst, size_t len,
                              const uint8_t *tag);

/* Opens a packet with any number, without a preparation. The expected packet stays as it is, so a
 * packet out of order costs it nothing. */
antedate_result antedate_open_other(antedate_opener *opener, uint64_t number, antedate_bytes aad, const uint8_t *src,
                                    uint8_t *dst, size_t len, const uint8_t *tag);

/* Ends an opener and zeroes it. */
antedate_result antedate_opener_wipe(antedate_opener *opener);

#ifdef __cplusplus
}
#endif

#endif
