/* Records of a DTLS 1.2 connection with AES-128-CCM_8, after its handshake: lines of text become
 * records, and records lines.
 *
 *     printf 'valve open\n' | dtls_records protect | dtls_records open
 */
#include "antedate_dtls.h"

#include <stdio.h>
#include <string.h>

enum { APPLICATION_DATA = 23, LINE = 200 };

/* What a handshake gives: key and IV of the direction, the peer's connection ID. Its Finished was
 * record 0 of epoch 1. */
static const uint8_t key_octets[16] = "a session's key", iv_octets[4] = {1, 2, 3, 4}, cid_octets[2] = {0xc1, 0xd0};
static const antedate_bytes key = {key_octets, 16}, iv = {iv_octets, 4}, cid = {cid_octets, 2};
static const uint64_t first = (uint64_t)1 << 48 | 1;

static int failed(antedate_result result, const char *what) {
    if (result != ANTEDATE_OK) fprintf(stderr, "dtls_records: %s: %s\n", what, antedate_strerror(result));
    return result != ANTEDATE_OK;
}

static int protect(void) {
    static antedate_dtls_writer writer;
    char line[LINE];
    if (failed(antedate_dtls_writer_init(&writer, ANTEDATE_AES_128_CCM_8, key, iv, first, cid), "init")) return 1;
    for (;;) {
        /* Idle time: the record is prepared before its text exists. */
        if (failed(antedate_dtls_prepare(&writer), "prepare")) return 1;
        while (antedate_dtls_step(&writer, 1) > 0)
            ;
        if (fgets(line, sizeof line, stdin) == NULL) break;

        uint8_t record[LINE + ANTEDATE_DTLS_OVERHEAD_MAX];
        size_t len;
        const antedate_bytes text = {(const uint8_t *)line, strlen(line)};
        if (failed(antedate_dtls_protect(&writer, APPLICATION_DATA, text, record, sizeof record, &len), "protect"))
            return 1;
        fwrite(record, 1, len, stdout);
    }
    return failed(antedate_dtls_writer_wipe(&writer), "wipe") || fflush(stdout) != 0;
}

static int open_all(void) {
    static antedate_dtls_reader reader;
    uint8_t datagram[4096], plain[sizeof datagram];
    int refused = 0;
    if (failed(antedate_dtls_reader_init(&reader, ANTEDATE_AES_128_CCM_8, key, iv, first, cid), "init")) return 1;
    const size_t len = fread(datagram, 1, sizeof datagram, stdin);
    for (size_t at = 0; at < len;) {
        antedate_dtls_content content;
        if (failed(antedate_dtls_expect(&reader), "expect")) return 1;
        while (antedate_dtls_reader_step(&reader, 1) > 0)
            ;
        antedate_result result = antedate_dtls_open(&reader, datagram + at, len - at, plain, sizeof plain, &content);
        if (result == ANTEDATE_OK && content.content_type == APPLICATION_DATA)
            fwrite(plain, 1, content.len, stdout);
        else
            refused += failed(result, "record");
        if (content.record_len == 0) break;
        at += content.record_len;
    }
    return failed(antedate_dtls_reader_wipe(&reader), "wipe") || refused > 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "protect") == 0) return protect();
    if (argc == 2 && strcmp(argv[1], "open") == 0) return open_all();
    fprintf(stderr, "usage: dtls_records protect | dtls_records open\n");
    return 2;
}
