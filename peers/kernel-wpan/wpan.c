/* Runs in the guest: configures the kernel's IEEE 802.15.4 link-layer security, uses its sockets,
 * and captures and injects frames on the simulated radio.
 *
 *   wpan setup IF LEVEL COUNTER KEY MODE PEER_EXTENDED PEER_SHORT PAN
 *   wpan clear IF MODE PEER_EXTENDED PEER_SHORT PAN
 *   wpan send MONITOR PAN OWN_SHORT PEER_SHORT secured|plain PAYLOAD...
 *   wpan inject MONITOR PAN OWN_SHORT FRAME...
 *
 * Numbers are hexadecimal except LEVEL, COUNTER and MODE; addresses have the most significant octet
 * first. MODE is the key identifier mode (0 to 3). In modes 1 to 3 the key index is 7, the key source
 * 0x11223344 or 0x1122334455667788. `send` prints each frame on the monitor, `inject` each datagram
 * that the kernel delivers.
 *
 * Debian's kernel has no security in nl802154, so this uses the older netlink family, "802.15.4 MAC".
 * The user headers lack its numbers (include/linux/nl802154.h) and the socket's. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DEV_NAME = 1, SHORT_ADDR = 4, HW_ADDR = 5, PAN_ID = 6, ENABLED = 41, SECLEVEL, KEY_MODE, SOURCE_SHORT,
       SOURCE_EXTENDED, KEY_ID, FRAME_COUNTER, KEY_BYTES, USAGE_TYPES, USAGE_COMMANDS, FRAME_TYPE, COMMAND_ID,
       SECLEVELS, OVERRIDE, DEVICE_KEYS };
enum { SET_PARAMS = 37, ADD_KEY = 39, DEL_KEY, ADD_DEVICE = 42, DEL_DEVICE, ADD_LEVELS = 48, DEL_LEVELS };
enum { DATA = 1, INDEX = 7, ALL_LEVELS = 0xfe };

/* PF_IEEE802154 */
struct address { sa_family_t family; int type; uint16_t pan; union { uint8_t extended[8]; uint16_t of_two; }; };
enum { BY_SHORT = 2, WPAN_SECURITY = 1, SECURITY_OFF = 1 };

static void fail(const char *what) { fprintf(stderr, "wpan: %s: %s\n", what, strerror(errno)); exit(1); }

static int octets(const char *hex, uint8_t *out, int room) {
  int n = 0;
  for (; hex[0] && hex[1] && n < room; hex += 2) {
    char two[3] = { hex[0], hex[1], 0 };
    out[n++] = (uint8_t)strtoul(two, NULL, 16);
  }
  return n;
}

static uint16_t word(const char *hex) { return (uint16_t)strtoul(hex, NULL, 16); }

/* A netlink message under construction. */
static struct { struct nlmsghdr head; struct genlmsghdr verb; uint8_t body[1024]; } message;
static int line, family;

static void begin(int type, int verb, int flags) {
  memset(&message, 0, sizeof message);
  message.head.nlmsg_type = (uint16_t)type;
  message.head.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
  message.head.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
  message.verb.cmd = (uint8_t)verb;
  message.verb.version = 1;
}

static void add(int type, const void *value, int len) {
  struct nlattr *at = (void *)((char *)&message + NLMSG_ALIGN(message.head.nlmsg_len));
  at->nla_type = (uint16_t)type;
  at->nla_len = (uint16_t)(NLA_HDRLEN + len);
  memcpy((char *)at + NLA_HDRLEN, value, (size_t)len);
  message.head.nlmsg_len = NLMSG_ALIGN(message.head.nlmsg_len) + NLA_ALIGN(at->nla_len);
}

static void add8(int type, uint8_t value) { add(type, &value, 1); }
static void add16(int type, uint16_t value) { add(type, &value, 2); }
static void add32(int type, uint32_t value) { add(type, &value, 4); }

/* Sends the message, stores the reply in `answer`, and returns the reply's error (0: none). */
static uint8_t answer[8192];
static int ask(void) {
  if (send(line, &message, message.head.nlmsg_len, 0) < 0) fail("netlink");
  if (recv(line, answer, sizeof answer, 0) < (ssize_t)sizeof(struct nlmsghdr)) fail("netlink");
  struct nlmsghdr *head = (void *)answer;
  return head->nlmsg_type == NLMSG_ERROR ? -((struct nlmsgerr *)NLMSG_DATA(head))->error : 0;
}

static void must(const char *what) {
  errno = ask();
  if (errno) fail(what);
}

static void connect_netlink(void) {
  line = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
  if (line < 0) fail("netlink");
  begin(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
  add(CTRL_ATTR_FAMILY_NAME, "802.15.4 MAC", 13);
  must("family");
  struct nlmsghdr *head = (void *)answer;
  char *end = (char *)answer + head->nlmsg_len;
  for (char *at = (char *)NLMSG_DATA(head) + GENL_HDRLEN; at < end;) {
    struct nlattr *attribute = (void *)at;
    if (attribute->nla_type == CTRL_ATTR_FAMILY_ID) family = *(uint16_t *)(at + NLA_HDRLEN);
    at += NLA_ALIGN(attribute->nla_len);
  }
}

static void of(const char *interface, int verb, int flags) {
  begin(family, verb, flags | NLM_F_ACK);
  add(DEV_NAME, interface, (int)strlen(interface) + 1);
}

/* Adds the key identifier. In mode 0 the other device identifies the key. */
static void key_id(int mode, const char *peer_short, const char *pan) {
  const uint8_t source[8] = { 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88 };
  add8(KEY_MODE, (uint8_t)mode);
  if (mode == 0) {
    add16(PAN_ID, word(pan));
    add16(SHORT_ADDR, word(peer_short));
  } else {
    add8(KEY_ID, INDEX);
  }
  if (mode == 2) add32(SOURCE_SHORT, 0x11223344);
  if (mode == 3) add(SOURCE_EXTENDED, source, 8);
}

static void device(const char *interface, int verb, int flags, char **peer) {
  uint8_t extended[8];
  octets(peer[0], extended, 8);
  of(interface, verb, flags);
  add(HW_ADDR, extended, 8);
  if (verb == ADD_DEVICE) {
    add16(SHORT_ADDR, word(peer[1]));
    add16(PAN_ID, word(peer[2]));
    add32(FRAME_COUNTER, 0);
    add8(OVERRIDE, 0);
    add8(DEVICE_KEYS, 0);
  }
}

static void levels(const char *interface, int verb, int flags, uint8_t set) {
  of(interface, verb, flags);
  add8(FRAME_TYPE, DATA);
  add8(SECLEVELS, set);
  add8(OVERRIDE, 0);
}

static int setup(char **a) {
  uint8_t key[16];
  int mode = atoi(a[4]), level = atoi(a[1]);
  octets(a[3], key, 16);
  connect_netlink();
  of(a[0], SET_PARAMS, 0);
  add8(ENABLED, 1);
  add8(SECLEVEL, (uint8_t)level);
  add32(FRAME_COUNTER, (uint32_t)atoi(a[2]));
  key_id(mode, a[6], a[7]);
  must("parameters");
  of(a[0], ADD_KEY, NLM_F_CREATE | NLM_F_EXCL);
  add(KEY_BYTES, key, 16);
  add8(USAGE_TYPES, 1 << DATA);
  key_id(mode, a[6], a[7]);
  must("key");
  device(a[0], ADD_DEVICE, NLM_F_CREATE | NLM_F_EXCL, a + 5);
  must("device");
  /* Allows only the tested level. */
  levels(a[0], ADD_LEVELS, NLM_F_CREATE | NLM_F_EXCL, (uint8_t)(1 << level));
  must("levels");
  return 0;
}

static int clear(char **a) {
  connect_netlink();
  of(a[0], DEL_KEY, 0);
  key_id(atoi(a[1]), a[3], a[4]);
  must("key");
  device(a[0], DEL_DEVICE, 0, a + 2);
  must("device");
  for (int level = 1; level < 8; level++) {
    levels(a[0], DEL_LEVELS, 0, (uint8_t)(1 << level));
    ask();
  }
  return 0;
}

static int air(const char *monitor) {
  struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(0x0003) };
  at.sll_ifindex = (int)if_nametoindex(monitor);
  int fd = socket(AF_PACKET, SOCK_RAW, htons(0x0003));
  if (fd < 0 || at.sll_ifindex == 0 || bind(fd, (void *)&at, sizeof at)) fail(monitor);
  return fd;
}

static struct address named(const char *pan, const char *of_two) {
  struct address at = { .family = AF_IEEE802154, .type = BY_SHORT, .pan = word(pan) };
  at.of_two = word(of_two);
  return at;
}

static int datagrams(const char *pan, const char *own) {
  struct address at = named(pan, own);
  int fd = socket(AF_IEEE802154, SOCK_DGRAM, 0);
  if (fd < 0 || bind(fd, (void *)&at, sizeof at)) fail("datagrams");
  return fd;
}

static void print(const char *what, const uint8_t *bytes, ssize_t len) {
  printf("%s ", what);
  for (ssize_t i = 0; i < len; i++) printf("%02x", bytes[i]);
  printf("\n");
}

/* Prints incoming frames until a timeout. */
static void listen_to(int fd, const char *what, int first, int rest) {
  uint8_t bytes[256];
  struct pollfd wait = { .fd = fd, .events = POLLIN };
  for (int patience = first; poll(&wait, 1, patience) > 0; patience = rest) {
    struct sockaddr_ll from;
    socklen_t room = sizeof from;
    ssize_t len = recvfrom(fd, bytes, sizeof bytes, 0, (void *)&from, &room);
    if (len > 0) print(what, bytes, len);
  }
}

static int send_all(char **a, int payloads) {
  int ether = air(a[0]), fd = datagrams(a[1], a[2]);
  struct address peer = named(a[1], a[3]);
  int off = SECURITY_OFF;
  if (!strcmp(a[4], "plain") && setsockopt(fd, 0, WPAN_SECURITY, &off, sizeof off)) fail("without security");
  for (int i = 0; i < payloads; i++) {
    uint8_t bytes[128];
    int len = octets(a[5 + i], bytes, sizeof bytes);
    if (sendto(fd, bytes, (size_t)len, 0, (void *)&peer, sizeof peer) < 0) fail("send");
    listen_to(ether, "heard", 2000, 30);
  }
  return 0;
}

static int inject(char **a, int frames) {
  int ether = air(a[0]), fd = datagrams(a[1], a[2]);
  for (int i = 0; i < frames; i++) {
    uint8_t bytes[128];
    int len = octets(a[3 + i], bytes, sizeof bytes);
    if (send(ether, bytes, (size_t)len, 0) < 0) fail("inject");
    /* One frame at a time, so that none is late. */
    listen_to(fd, "delivered", 30, 10);
  }
  listen_to(fd, "delivered", 60, 30);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 9 && !strcmp(argv[1], "setup")) return setup(argv + 2);
  if (argc > 6 && !strcmp(argv[1], "clear")) return clear(argv + 2);
  if (argc > 7 && !strcmp(argv[1], "send")) return send_all(argv + 2, argc - 7);
  if (argc > 5 && !strcmp(argv[1], "inject")) return inject(argv + 2, argc - 5);
  fprintf(stderr, "wpan: setup, clear, send or inject; see the top of wpan.c\n");
  return 2;
}
