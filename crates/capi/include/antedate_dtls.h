/* Antedate: records of DTLS 1.2 (RFC 6347), with connection IDs (RFC 9146), prepared before their
 * content exists. The handshake is another library's: it gives key, IV, epoch and number.
 *
 *     antedate_dtls_writer_init(&writer, ANTEDATE_AES_128_CCM_8, key, iv, number, cid);
 *     antedate_dtls_prepare(&writer);
 *     while (antedate_dtls_step(&writer, 1) > 0) ...             // idle time
 *     antedate_dtls_protect(&writer, 23, content, record, sizeof record, &len);
 *
 * Suites: AES-128-CCM_8, AES-128-CCM, AES-256-CCM (RFC 6655), AES-128-GCM, AES-256-GCM (RFC 5288),
 * ChaCha20-Poly1305 (RFC 7905). Results, contexts and exceptions are those of antedate.h.
 */
#ifndef ANTEDATE_DTLS_H
#define ANTEDATE_DTLS_H

#include "antedate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The longest connection ID. */
#define ANTEDATE_DTLS_CID_MAX 32
/* Bytes that a record adds to its content, at most: header 13, connection ID 32, explicit nonce 8, inner
 * type 1, tag 16. */
#define ANTEDATE_DTLS_OVERHEAD_MAX 70

/* A direction of an epoch. `next` may be read: epoch and sequence number of the next record to send,
 * or one above the highest received. All else is the library's. */
typedef struct {
    uint64_t next;
    uint64_t own[11];
    antedate_sealer sealer;
} antedate_dtls_writer;
typedef struct {
    uint64_t next;
    uint64_t own[11];
    antedate_opener opener;
} antedate_dtls_reader;

/* An opened record. */
typedef struct {
    uint8_t content_type; /* 20 change cipher spec, 21 alert, 22 handshake, 23 application data */
    uint8_t newest;       /* 1 if it is newer than all before: the sender's address may be learnt from it */
    size_t len;           /* bytes of content */
    size_t record_len;    /* bytes of the record in its datagram, also if it was refused; 0 if malformed */
} antedate_dtls_content;

/* Makes a writer. `iv` has 4 bytes (ChaCha20-Poly1305: 12). `number` is that of the first record: the
 * epoch in the upper 16 bits, and the sequence number. The key has protected no record from there
 * on. `cid` is the peer's connection ID, empty for none. */
antedate_result antedate_dtls_writer_init_sized(antedate_dtls_writer *writer, size_t bytes, uint32_t suite,
                                                antedate_bytes key, antedate_bytes iv, uint64_t number,
                                                antedate_bytes cid);
#define antedate_dtls_writer_init(writer, suite, key, iv, number, cid) \
    antedate_dtls_writer_init_sized((writer), sizeof *(writer), (suite), (key), (iv), (number), (cid))
antedate_result antedate_dtls_writer_wipe(antedate_dtls_writer *writer);

/* Takes the number of the next record and begins to prepare it. A prepared record that is not sent
 * leaves a gap in the numbers, which DTLS permits. ANTEDATE_SPENT: the epoch has no number left. */
antedate_result antedate_dtls_prepare(antedate_dtls_writer *writer);

/* The same for content that begins with `front` and has one of the lengths, for CCM. The bytes of the
 * front stay unchanged until the record is protected. */
antedate_result antedate_dtls_prepare_front(antedate_dtls_writer *writer, uint8_t content_type, antedate_bytes front,
                                            const size_t *lengths, size_t length_count);

/* Does at most `budget` units of preparation and returns their number; 0 if none is left. */
uint32_t antedate_dtls_step(antedate_dtls_writer *writer, uint32_t budget);

/* Protects a record into `out`, which has `room` bytes, and sets its length. The content may lie in
 * `out`. A preparation that does not fit costs nothing, and none is needed. After an error `out` holds
 * nothing that may be sent. */
antedate_result antedate_dtls_protect(antedate_dtls_writer *writer, uint8_t content_type, antedate_bytes content,
                                      uint8_t *out, size_t room, size_t *record_len);

/* Protects the record of the front, whose content continues with `rest`. After ANTEDATE_TOO_LONG the
 * record can still be protected. */
antedate_result antedate_dtls_protect_front(antedate_dtls_writer *writer, antedate_bytes rest, uint8_t *out,
                                            size_t room, size_t *record_len);

/* Makes a reader. Records below `number` count as received. `cid` is the own connection ID. */
antedate_result antedate_dtls_reader_init_sized(antedate_dtls_reader *reader, size_t bytes, uint32_t suite,
                                                antedate_bytes key, antedate_bytes iv, uint64_t number,
                                                antedate_bytes cid);
#define antedate_dtls_reader_init(reader, suite, key, iv, number, cid) \
    antedate_dtls_reader_init_sized((reader), sizeof *(reader), (suite), (key), (iv), (number), (cid))
antedate_result antedate_dtls_reader_wipe(antedate_dtls_reader *reader);

/* Begins to prepare for the record after the newest one. */
antedate_result antedate_dtls_expect(antedate_dtls_reader *reader);
antedate_result antedate_dtls_expect_front(antedate_dtls_reader *reader, uint8_t content_type, antedate_bytes front,
                                           const size_t *lengths, size_t length_count);
uint32_t antedate_dtls_reader_step(antedate_dtls_reader *reader, uint32_t budget);

/* Opens the first record of a datagram into `plain`, which has `room` bytes (those of the record
 * suffice) and lies apart. The next record begins `record_len` bytes later.
 *
 * ANTEDATE_FRAME: malformed, or of another epoch or connection. ANTEDATE_REPLAYED: received before, or
 * older than the 64 newest. ANTEDATE_UNAUTHENTIC: forged or damaged. A refused record changes
 * nothing, the preparation included. */
antedate_result antedate_dtls_open(antedate_dtls_reader *reader, const uint8_t *datagram, size_t len, uint8_t *plain,
                                   size_t room, antedate_dtls_content *content);

#ifdef __cplusplus
}
#endif

#endif
