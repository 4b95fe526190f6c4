/* Antedate: payloads of MQTT, sealed and opened beside any MQTT client. For programs with an operating
 * system; the library is built with `cargo xtask capi --mqtt`.
 *
 *     antedate_mqtt_new(&guard, &files, why, sizeof why);
 *     antedate_mqtt_seal(guard, topic, payload, message, sizeof message, &len);
 *     antedate_mqtt_open(guard, topic, message, 1, payload, sizeof payload, &opened);
 *     antedate_mqtt_close(guard, why, sizeof why);
 *
 * Group files, devices and states are those of the command `antedate mqtt`. A guard is for one thread at a
 * time, and one process at a time has its state. In a child of fork() its functions return
 * ANTEDATE_FORKED. Texts are UTF-8 with a final zero.
 *
 * ANTEDATE_FILES: a file or the state has a fault. ANTEDATE_REFUSED: nothing was sealed or opened.
 * antedate_mqtt_why() tells the reason of either, with the remedy.
 */
#ifndef ANTEDATE_MQTT_H
#define ANTEDATE_MQTT_H

#include "antedate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that a message is longer than its payload, at most. */
#define ANTEDATE_MQTT_OVERHEAD 256
/* Bytes that suffice for the texts of faults. Longer ones are cut. */
#define ANTEDATE_MQTT_TEXT 512

typedef struct antedate_mqtt antedate_mqtt;

/* The files of a client. */
typedef struct {
    const char *const *keys; /* paths of group files */
    size_t key_count;        /* at least 1 */
    const char *state;       /* the state directory, to seal, or to refuse repetitions over restarts; or NULL */
    const char *device;      /* the device's own key, for groups with a manager; or NULL */
    const char *publisher;   /* the name to publish under; NULL for the device's */
} antedate_mqtt_files;

/* What a message was. */
typedef struct {
    size_t len;         /* bytes of the payload */
    uint64_t sequence;  /* the publisher's number */
    uint32_t epoch;     /* of the key; after a rotation the newest one */
    uint32_t time;      /* of sealing, in seconds since 1970, on topics with a most age; otherwise 0 */
    uint32_t kind;      /* one of the following */
    char publisher[65]; /* its name */
    uint8_t reserved[3];
} antedate_mqtt_opened;
#define ANTEDATE_MQTT_PAYLOAD 0  /* authentic and new */
#define ANTEDATE_MQTT_ROTATION 1 /* a rotation, which was followed; there is no payload */
#define ANTEDATE_MQTT_PLAIN 2    /* the topic is of no group: the message itself, of which nothing is known */

/* Makes an empty state directory, once for each publisher's name. */
antedate_result antedate_mqtt_create_state(const char *directory, char *why, size_t why_room);

/* Reads the files. After success `why` has warnings, or is empty. */
antedate_result antedate_mqtt_new(antedate_mqtt **guard, const antedate_mqtt_files *files, char *why,
                                  size_t why_room);

/* Tells why the last call failed. */
antedate_result antedate_mqtt_why(antedate_mqtt *guard, char *why, size_t why_room);

/* The topics to subscribe to as well, by index from 0. ANTEDATE_STATE: there is none of this index.
 * ANTEDATE_TOO_LONG: the room is too small. Give what comes there to antedate_mqtt_open(). */
antedate_result antedate_mqtt_rotation_topic(antedate_mqtt *guard, size_t index, char *topic, size_t room);

/* Seals a payload into `out`, whose room is that of the payload and ANTEDATE_MQTT_OVERHEAD at least, and
 * sets the length. Payload and `out` lie apart. */
antedate_result antedate_mqtt_seal(antedate_mqtt *guard, const char *topic, antedate_bytes payload, uint8_t *out,
                                   size_t room, size_t *len);

/* Opens a message into `out`, whose room is that of the message at least, and which lies apart. With
 * `durable` its number is on the disk then, before the message is acknowledged to the broker. */
antedate_result antedate_mqtt_open(antedate_mqtt *guard, const char *topic, antedate_bytes message, uint8_t durable,
                                   uint8_t *out, size_t room, antedate_mqtt_opened *opened);

/* Writes the numbers of all messages that were opened without `durable`. */
antedate_result antedate_mqtt_flush(antedate_mqtt *guard);

/* Prepares the next payloads, in idle time: some microseconds, or a write of the state. */
antedate_result antedate_mqtt_idle(antedate_mqtt *guard);

/* Writes the state, and frees the guard, also after an error. */
antedate_result antedate_mqtt_close(antedate_mqtt *guard, char *why, size_t why_room);

#ifdef __cplusplus
}
#endif

#endif
