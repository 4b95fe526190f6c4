/* Mbed TLS (Debian's libmbedtls-dev) as DTLS 1.2 server and client with a pre-shared key.
 *
 *   mbedtls server PORT IDENTITY HEXKEY SUITE            returns each datagram behind "echo "
 *   mbedtls client PORT IDENTITY HEXKEY SUITE COUNT MTU  sends messages, and counts the answers
 *
 * SUITE is Mbed TLS's name of a cipher suite; ephemeral keys are on P-256. MTU 0 leaves the length
 * of datagrams to the library. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_cookie.h>
#include <mbedtls/timing.h>

static mbedtls_entropy_context entropy;
static mbedtls_ctr_drbg_context random_numbers;
static mbedtls_ssl_config config;
static mbedtls_ssl_context session;
static mbedtls_ssl_cookie_ctx cookies;
static mbedtls_timing_delay_context timer;
static mbedtls_net_context listener, peer;

static void must(int result, const char *what) {
    if (result != 0) {
        fprintf(stderr, "%s: -0x%04x\n", what, -result);
        exit(1);
    }
}

static void prepare(int endpoint, const char *identity, const char *hex, const char *suite) {
    static int suites[2];
    static const mbedtls_ecp_group_id curves[] = { MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_NONE };
    unsigned char key[64];
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len && i < sizeof key; i++) {
        unsigned octet;
        if (sscanf(hex + 2 * i, "%2x", &octet) != 1) exit(2);
        key[i] = (unsigned char)octet;
    }
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&random_numbers);
    mbedtls_ssl_config_init(&config);
    mbedtls_ssl_init(&session);
    mbedtls_ssl_cookie_init(&cookies);
    must(mbedtls_ctr_drbg_seed(&random_numbers, mbedtls_entropy_func, &entropy, NULL, 0), "random numbers");
    must(mbedtls_ssl_config_defaults(&config, endpoint, MBEDTLS_SSL_TRANSPORT_DATAGRAM,
                                     MBEDTLS_SSL_PRESET_DEFAULT), "defaults");
    mbedtls_ssl_conf_rng(&config, mbedtls_ctr_drbg_random, &random_numbers);
    must(mbedtls_ssl_conf_psk(&config, key, len, (const unsigned char *)identity, strlen(identity)), "key");
    suites[0] = mbedtls_ssl_get_ciphersuite_id(suite);
    if (suites[0] == 0) {
        fprintf(stderr, "no suite %s\n", suite);
        exit(2);
    }
    mbedtls_ssl_conf_ciphersuites(&config, suites);
    mbedtls_ssl_conf_curves(&config, curves);
    mbedtls_ssl_conf_handshake_timeout(&config, 200, 3000);
    if (endpoint == MBEDTLS_SSL_IS_SERVER) {
        must(mbedtls_ssl_cookie_setup(&cookies, mbedtls_ctr_drbg_random, &random_numbers), "cookies");
        mbedtls_ssl_conf_dtls_cookies(&config, mbedtls_ssl_cookie_write, mbedtls_ssl_cookie_check, &cookies);
    }
    must(mbedtls_ssl_setup(&session, &config), "session");
    mbedtls_ssl_set_timer_cb(&session, &timer, mbedtls_timing_set_delay, mbedtls_timing_get_delay);
    mbedtls_ssl_set_bio(&session, &peer, mbedtls_net_send, mbedtls_net_recv, mbedtls_net_recv_timeout);
}

/* One client after the other, each until its session ends. */
static void serve(const char *port) {
    static unsigned char buffer[2000];
    mbedtls_net_init(&listener);
    must(mbedtls_net_bind(&listener, "127.0.0.1", port, MBEDTLS_NET_PROTO_UDP), "bind");
    printf("listening\n");
    for (;;) {
        unsigned char address[16];
        size_t address_len;
        int result;
        mbedtls_net_free(&peer);
        mbedtls_ssl_session_reset(&session);
        must(mbedtls_net_accept(&listener, &peer, address, sizeof address, &address_len), "accept");
        must(mbedtls_ssl_set_client_transport_id(&session, address, address_len), "address");
        mbedtls_ssl_conf_read_timeout(&config, 60000);
        do {
            result = mbedtls_ssl_handshake(&session);
        } while (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE);
        if (result == MBEDTLS_ERR_SSL_HELLO_VERIFY_REQUIRED) continue;
        if (result != 0) {
            printf("failed -0x%04x\n", -result);
            continue;
        }
        printf("accepted %s\n", mbedtls_ssl_get_ciphersuite(&session));
        for (;;) {
            memcpy(buffer, "echo ", 5);
            result = mbedtls_ssl_read(&session, buffer + 5, sizeof buffer - 5);
            if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_TIMEOUT) continue;
            if (result == MBEDTLS_ERR_SSL_CLIENT_RECONNECT) {
                do {
                    result = mbedtls_ssl_handshake(&session);
                } while (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE);
                if (result == 0) {
                    printf("accepted %s\n", mbedtls_ssl_get_ciphersuite(&session));
                    continue;
                }
            }
            if (result <= 0) break;
            if (mbedtls_ssl_write(&session, buffer, (size_t)result + 5) < 0) break;
        }
        printf("ended -0x%04x\n", -result);
    }
}

static void ask(const char *port, int count, int mtu) {
    static unsigned char buffer[2000];
    char said[100], expected[110];
    int answers = 0, result;
    if (mtu > 0) mbedtls_ssl_set_mtu(&session, (uint16_t)mtu);
    must(mbedtls_net_connect(&peer, "127.0.0.1", port, MBEDTLS_NET_PROTO_UDP), "connect");
    do {
        result = mbedtls_ssl_handshake(&session);
    } while (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE);
    must(result, "handshake");
    mbedtls_ssl_conf_read_timeout(&config, 300);
    for (int i = 0; i < count; i++) {
        int len = snprintf(said, sizeof said, "message %d", i);
        snprintf(expected, sizeof expected, "echo message %d", i);
        if (mbedtls_ssl_write(&session, (unsigned char *)said, (size_t)len) < 0) break;
        result = mbedtls_ssl_read(&session, buffer, sizeof buffer - 1);
        if (result <= 0) continue;
        buffer[result] = 0;
        answers += strcmp((char *)buffer, expected) == 0;
    }
    printf("answers %d\n", answers);
    mbedtls_ssl_close_notify(&session);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    mbedtls_net_init(&peer);
    if (argc == 6 && strcmp(argv[1], "server") == 0) {
        prepare(MBEDTLS_SSL_IS_SERVER, argv[3], argv[4], argv[5]);
        serve(argv[2]);
    } else if (argc == 8 && strcmp(argv[1], "client") == 0) {
        prepare(MBEDTLS_SSL_IS_CLIENT, argv[3], argv[4], argv[5]);
        ask(argv[2], atoi(argv[6]), atoi(argv[7]));
    } else {
        fprintf(stderr, "mbedtls server|client PORT IDENTITY HEXKEY SUITE [COUNT MTU]\n");
        return 2;
    }
    return 0;
}
