/* Checks `crates/mosquitto-plugin/src/broker.rs` against Mosquitto's headers. Compiled, never run. */
#include <mosquitto.h>
#include <mosquitto_broker.h>
#include <mosquitto_plugin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define IS(name, value) _Static_assert((name) == (value), #name)
#define OF(type, field, c_type) \
    _Static_assert(_Generic(((struct type *)0)->field, c_type: 1, default: 0), #type "." #field " is no " #c_type)

AT(mosquitto_opt, key, 0);
AT(mosquitto_opt, value, 8);
SIZE(mosquitto_opt, 16);
AT(mosquitto_evt_message, future, 0);
AT(mosquitto_evt_message, client, 8);
AT(mosquitto_evt_message, topic, 16);
AT(mosquitto_evt_message, payload, 24);
AT(mosquitto_evt_message, properties, 32);
AT(mosquitto_evt_message, reason_string, 40);
AT(mosquitto_evt_message, payloadlen, 48);
AT(mosquitto_evt_message, qos, 52);
AT(mosquitto_evt_message, reason_code, 53);
AT(mosquitto_evt_message, retain, 54);
AT(mosquitto_evt_message, future2, 56);
SIZE(mosquitto_evt_message, 88);
OF(mosquitto_evt_message, topic, char *);
OF(mosquitto_evt_message, payload, void *);
OF(mosquitto_evt_message, payloadlen, uint32_t);
OF(mosquitto_evt_message, qos, uint8_t);
OF(mosquitto_evt_message, reason_code, uint8_t);
OF(mosquitto_evt_message, retain, bool);
AT(mosquitto_evt_acl_check, future, 0);
AT(mosquitto_evt_acl_check, client, 8);
AT(mosquitto_evt_acl_check, topic, 16);
AT(mosquitto_evt_acl_check, payload, 24);
AT(mosquitto_evt_acl_check, properties, 32);
AT(mosquitto_evt_acl_check, access, 40);
AT(mosquitto_evt_acl_check, payloadlen, 44);
AT(mosquitto_evt_acl_check, qos, 48);
AT(mosquitto_evt_acl_check, retain, 49);
AT(mosquitto_evt_acl_check, future2, 56);
SIZE(mosquitto_evt_acl_check, 88);
OF(mosquitto_evt_acl_check, client, struct mosquitto *);
OF(mosquitto_evt_acl_check, topic, const char *);
OF(mosquitto_evt_acl_check, payload, const void *);
OF(mosquitto_evt_acl_check, access, int);
OF(mosquitto_evt_acl_check, payloadlen, uint32_t);
OF(mosquitto_evt_acl_check, qos, uint8_t);
OF(mosquitto_evt_acl_check, retain, bool);

IS(MOSQ_PLUGIN_VERSION, 5);
IS(MOSQ_EVT_ACL_CHECK, 2);
IS(MOSQ_EVT_MESSAGE, 7);
IS(MOSQ_ERR_SUCCESS, 0);
IS(MOSQ_ERR_NOMEM, 1);
IS(MOSQ_ERR_INVAL, 3);
IS(MOSQ_ERR_ACL_DENIED, 12);
IS(MOSQ_ERR_UNKNOWN, 13);
IS(MOSQ_ERR_PLUGIN_DEFER, 17);
IS(MOSQ_ACL_READ, 1);
IS(MOSQ_ACL_WRITE, 2);
IS(MOSQ_LOG_NOTICE, 2);
IS(MOSQ_LOG_WARNING, 4);
IS(MOSQ_LOG_ERR, 8);

/* The functions as the plugin declares them. */
extern int mosquitto_callback_register(mosquitto_plugin_id_t *, int, MOSQ_FUNC_generic_callback, const void *, void *);
extern int mosquitto_broker_publish_copy(const char *, const char *, int, const void *, int, bool, mosquitto_property *);
extern int mosquitto_client_protocol_version(const struct mosquitto *);
extern void *mosquitto_malloc(size_t);
extern void mosquitto_log_printf(int, const char *, ...);
static int callback(int event, void *data, void *user) {
    return event != 0 && data != user;
}
const MOSQ_FUNC_generic_callback generic = callback;
extern int mosquitto_plugin_version(int, const int *);
extern int mosquitto_plugin_init(mosquitto_plugin_id_t *, void **, struct mosquitto_opt *, int);
extern int mosquitto_plugin_cleanup(void *, struct mosquitto_opt *, int);
