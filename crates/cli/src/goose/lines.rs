//! Messages as lines of JSON.

use antedate_goose::clock;
use antedate_wire::EthernetAddress;
use antedate_wire::goose::{Message, Value};
use serde_json::Value as Json;

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// A message with its values.
pub(super) fn line(message: &Message<'_>, source: [u8; 6], values: &Json) -> String {
    let publisher = &message.publisher;
    let line = serde_json::json!({
        "control_block": text(publisher.gocb_ref),
        "data_set": text(publisher.dat_set),
        "go_id": publisher.go_id.map(text),
        "source": EthernetAddress(source).to_string(),
        "state": message.st_num,
        "sequence": message.sq_num,
        "revision": message.conf_rev,
        "simulation": message.simulation,
        "needs_commissioning": message.nds_com,
        "time_allowed_to_live": publisher.time_allowed_to_live,
        "t": clock::show(message.t),
        "values": values,
    });
    format!("{line}\n")
}

/// The values of a message whose data set is not known.
pub(super) fn unnamed(message: &Message<'_>) -> Json {
    message.all_data.iter().map(value).collect()
}

fn value(value: Value<'_>) -> Json {
    match value {
        Value::Boolean(value) => value.into(),
        Value::Integer(value, _) => value.into(),
        Value::Unsigned(value, _) => value.into(),
        Value::Float32(value) => value.into(),
        Value::Float64(value) => value.into(),
        Value::Visible(value) | Value::Mms(value) => text(value).into(),
        Value::Bits(value, _) | Value::Octets(value) | Value::BinaryTime(value) => value.into(),
        Value::UtcTime(value) => value.to_vec().into(),
        Value::Structure(values) | Value::Array(values) => values.iter().map(self::value).collect(),
    }
}
