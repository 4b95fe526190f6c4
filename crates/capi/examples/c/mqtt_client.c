/* Seals and opens payloads beside an MQTT client of the program's own. Here files stand for the broker:
 *
 *     mqtt_client init press7
 *     mqtt_client seal line4.toml press7 press7 plant/line4/press7/force < payload > message
 *     mqtt_client open line4.toml plant/line4/press7/force < message
 */
#include "antedate_mqtt.h"

#include <stdio.h>
#include <string.h>

enum { PAYLOAD = 65536 };

static char why[ANTEDATE_MQTT_TEXT];
static uint8_t in[PAYLOAD + ANTEDATE_MQTT_OVERHEAD], out[PAYLOAD + ANTEDATE_MQTT_OVERHEAD];

static int failed(antedate_mqtt *guard, antedate_result result) {
    if (result == ANTEDATE_OK) return 0;
    if (guard != NULL) antedate_mqtt_why(guard, why, sizeof why);
    fprintf(stderr, "mqtt_client: %s: %s\n", antedate_strerror(result), why);
    return 1;
}

static int seal(antedate_mqtt *guard, const char *topic) {
    size_t len;
    const antedate_bytes payload = {in, fread(in, 1, PAYLOAD, stdin)};
    if (failed(guard, antedate_mqtt_seal(guard, topic, payload, out, sizeof out, &len))) return 1;
    /* Publish it here. */
    return fwrite(out, 1, len, stdout) != len;
}

static int open_one(antedate_mqtt *guard, const char *topic) {
    antedate_mqtt_opened opened;
    const antedate_bytes message = {in, fread(in, 1, sizeof in, stdin)};
    if (failed(guard, antedate_mqtt_open(guard, topic, message, 1, out, sizeof out, &opened))) return 1;
    /* Acknowledge it to the broker here. */
    if (opened.kind == ANTEDATE_MQTT_PAYLOAD)
        printf("%s %lu: %.*s\n", opened.publisher, (unsigned long)opened.sequence, (int)opened.len, (char *)out);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "init") == 0)
        return failed(NULL, antedate_mqtt_create_state(argv[2], why, sizeof why));
    const int seals = argc == 6 && strcmp(argv[1], "seal") == 0;
    if (!seals && !(argc == 4 && strcmp(argv[1], "open") == 0)) {
        fprintf(stderr, "usage: mqtt_client init STATE | seal KEYS STATE PUBLISHER TOPIC | open KEYS TOPIC\n");
        return 2;
    }
    const char *keys[1] = {argv[2]};
    const antedate_mqtt_files files = {keys, 1, seals ? argv[3] : NULL, NULL, seals ? argv[4] : NULL};
    antedate_mqtt *guard;
    if (failed(NULL, antedate_mqtt_new(&guard, &files, why, sizeof why))) return 2;

    /* A program with a client subscribes to these as well. */
    char topic[ANTEDATE_MQTT_TEXT];
    for (size_t at = 0; antedate_mqtt_rotation_topic(guard, at, topic, sizeof topic) == ANTEDATE_OK; at++)
        fprintf(stderr, "mqtt_client: rotations come on %s\n", topic);

    const int result = seals ? seal(guard, argv[5]) : open_one(guard, argv[3]);
    return failed(NULL, antedate_mqtt_close(guard, why, sizeof why)) || result || fflush(stdout) != 0;
}
