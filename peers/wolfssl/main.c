/* wolfSSL (Debian's libwolfssl-dev) as DTLS 1.2 server and client with a pre-shared key.
 *
 *   wolfssl server PORT IDENTITY HEXKEY SUITE        returns each datagram behind "echo "
 *   wolfssl client PORT IDENTITY HEXKEY SUITE COUNT  sends messages, and counts the answers
 *
 * SUITE is wolfSSL's name of a cipher suite. Ephemeral keys are on P-256: the client of 5.5.4 offers
 * X25519, and refuses the server's key on it with ECDHE_PSK (error -352). */

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <wolfssl/options.h>
#include <wolfssl/ssl.h>

static const char *identity;
static unsigned char key[64];
static size_t key_len;

static void must(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static unsigned int client_key(WOLFSSL *session, const char *hint, char *name, unsigned int name_len,
                               unsigned char *out, unsigned int out_len) {
    (void)session;
    (void)hint;
    if (key_len > out_len || strlen(identity) >= name_len) return 0;
    strcpy(name, identity);
    memcpy(out, key, key_len);
    return (unsigned int)key_len;
}

static unsigned int server_key(WOLFSSL *session, const char *name, unsigned char *out, unsigned int out_len) {
    (void)session;
    if (key_len > out_len || strcmp(name, identity) != 0) return 0;
    memcpy(out, key, key_len);
    return (unsigned int)key_len;
}

static WOLFSSL_CTX *prepare(WOLFSSL_METHOD *method, const char *hex, const char *suite) {
    WOLFSSL_CTX *context = wolfSSL_CTX_new(method);
    key_len = strlen(hex) / 2;
    must(context != NULL && key_len <= sizeof key, "context");
    for (size_t i = 0; i < key_len; i++) {
        unsigned octet;
        must(sscanf(hex + 2 * i, "%2x", &octet) == 1, "key");
        key[i] = (unsigned char)octet;
    }
    must(wolfSSL_CTX_set_cipher_list(context, suite) == WOLFSSL_SUCCESS, "suite");
    must(wolfSSL_CTX_UseSupportedCurve(context, WOLFSSL_ECC_SECP256R1) == WOLFSSL_SUCCESS, "curve");
    wolfSSL_CTX_set_psk_client_callback(context, client_key);
    wolfSSL_CTX_set_psk_server_callback(context, server_key);
    return context;
}

static struct sockaddr_in at(const char *port) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port)) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static WOLFSSL *session_on(WOLFSSL_CTX *context, int socket, struct sockaddr_in *peer) {
    WOLFSSL *session = wolfSSL_new(context);
    must(session != NULL, "session");
    must(connect(socket, (struct sockaddr *)peer, sizeof *peer) == 0, "connect");
    must(wolfSSL_dtls_set_peer(session, peer, sizeof *peer) == WOLFSSL_SUCCESS, "peer");
    must(wolfSSL_set_fd(session, socket) == WOLFSSL_SUCCESS, "socket");
    /* In seconds. */
    wolfSSL_dtls_set_timeout_init(session, 1);
    return session;
}

/* One client after the other, each until its session ends. */
static void serve(WOLFSSL_CTX *context, const char *port) {
    static unsigned char buffer[2000];
    struct sockaddr_in own = at(port);
    printf("listening\n");
    for (;;) {
        struct sockaddr_in peer;
        socklen_t peer_len = sizeof peer;
        int on = 1, result, listener = socket(AF_INET, SOCK_DGRAM, 0);
        must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "option");
        must(bind(listener, (struct sockaddr *)&own, sizeof own) == 0, "bind");
        must(recvfrom(listener, buffer, 1, MSG_PEEK, (struct sockaddr *)&peer, &peer_len) >= 0, "receive");
        WOLFSSL *session = session_on(context, listener, &peer);
        if (wolfSSL_accept(session) == WOLFSSL_SUCCESS) {
            printf("accepted %s\n", wolfSSL_get_cipher_name(session));
            memcpy(buffer, "echo ", 5);
            while ((result = wolfSSL_read(session, buffer + 5, sizeof buffer - 5)) > 0) {
                if (wolfSSL_write(session, buffer, result + 5) <= 0) break;
            }
        }
        printf("ended %d\n", wolfSSL_get_error(session, 0));
        wolfSSL_free(session);
        close(listener);
    }
}

static void ask(WOLFSSL_CTX *context, const char *port, int count) {
    static char buffer[2000], said[100], expected[110];
    struct sockaddr_in peer = at(port);
    int answers = 0, own = socket(AF_INET, SOCK_DGRAM, 0);
    WOLFSSL *session = session_on(context, own, &peer);
    if (wolfSSL_connect(session) != WOLFSSL_SUCCESS) {
        fprintf(stderr, "handshake: %d\n", wolfSSL_get_error(session, 0));
        exit(1);
    }
    /* A read after a dropped record would wait for the next one. */
    wolfSSL_dtls_set_using_nonblock(session, 1);
    must(fcntl(own, F_SETFL, O_NONBLOCK) == 0, "option");
    for (int i = 0; i < count; i++) {
        struct pollfd readable = { .fd = own, .events = POLLIN };
        int len = snprintf(said, sizeof said, "message %d", i);
        snprintf(expected, sizeof expected, "echo message %d", i);
        if (wolfSSL_write(session, said, len) <= 0) break;
        if (poll(&readable, 1, 300) != 1) continue;
        len = wolfSSL_read(session, buffer, sizeof buffer - 1);
        if (len <= 0) continue;
        buffer[len] = 0;
        answers += strcmp(buffer, expected) == 0;
    }
    printf("answers %d\n", answers);
    wolfSSL_shutdown(session);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    wolfSSL_Init();
    if (argc == 6 && strcmp(argv[1], "server") == 0) {
        identity = argv[3];
        serve(prepare(wolfDTLSv1_2_server_method(), argv[4], argv[5]), argv[2]);
    } else if (argc == 7 && strcmp(argv[1], "client") == 0) {
        identity = argv[3];
        ask(prepare(wolfDTLSv1_2_client_method(), argv[4], argv[5]), argv[2], atoi(argv[6]));
    } else {
        fprintf(stderr, "wolfssl server|client PORT IDENTITY HEXKEY SUITE [COUNT]\n");
        return 2;
    }
    return 0;
}
