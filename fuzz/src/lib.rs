//! Fuzz target bodies.
//!
//! A body takes any octets, must not panic, and asserts a parser's promises: a parsed value is
//! written back unchanged, and each part is inside its input. `cargo test` runs each body on its
//! seeds (`seeds/*.txt`) and on truncated and changed seeds. libFuzzer starts from the same seeds:
//! `cargo xtask fuzz`, which writes them to `corpus/` by the example `seeds`.

pub mod channel;
pub mod differential;
pub mod dot15d4;
pub mod dtls;
pub mod fleet;
pub mod gateway;
pub mod inspect;
pub mod mqtt;
pub mod overlay;
pub mod scl;
pub mod suites;
pub mod wire;
pub mod wireguard;

/// A fuzz target's body.
pub type Body = fn(&[u8]);

/// Every target: its name, also the name of its seed file, and its body.
pub const TARGETS: &[(&str, Body)] = &[
    ("aead_aegis", suites::aead_aegis),
    ("aead_ascon", suites::aead_ascon),
    ("aead_ccm", suites::aead_ccm),
    ("aead_chacha20poly1305", suites::aead_chacha20poly1305),
    ("aead_gcm", suites::aead_gcm),
    ("aead_morus", suites::aead_morus),
    ("aead_ocb3", suites::aead_ocb3),
    ("against_etherparse", differential::against_etherparse),
    ("against_ieee802154", differential::against_ieee802154),
    ("against_tls_parser", differential::against_tls_parser),
    ("alarm", wire::alarm),
    ("arp", wire::arp),
    ("cbc_pkcs7", suites::cbc_pkcs7),
    ("cojp", dot15d4::cojp),
    ("config", gateway::config),
    ("dcerpc", wire::dcerpc),
    ("dcp", wire::dcp),
    ("dot15d4_advertisement", dot15d4::dot15d4_advertisement),
    ("dot15d4_frame", dot15d4::dot15d4_frame),
    ("dot15d4_node", dot15d4::dot15d4_node),
    ("dot15d4_unsecure", dot15d4::dot15d4_unsecure),
    ("dtls_certificate", dtls::dtls_certificate),
    ("dtls_connection", dtls::dtls_connection),
    ("dtls_credentials", dtls::dtls_credentials),
    ("dtls_handshake", dtls::dtls_handshake),
    ("dtls_open", dtls::dtls_open),
    ("dtls_record", dtls::dtls_record),
    ("echo", wire::echo),
    ("ethernet", wire::ethernet),
    ("fleet_document", fleet::fleet_document),
    ("fleet_report", fleet::fleet_report),
    ("fleet_request", fleet::fleet_request),
    ("fragments", channel::fragments),
    ("gate", gateway::gate),
    ("goose", wire::goose),
    ("http_request", gateway::http_request),
    ("inspect_publish", inspect::inspect_publish),
    ("inspect_stream", inspect::inspect_stream),
    ("ip", wire::ip),
    ("joiner", gateway::joiner),
    ("key_file", gateway::key_file),
    ("lldp", wire::lldp),
    ("macsec_mpdu", wire::macsec_mpdu),
    ("macsec_validate", channel::macsec_validate),
    ("macsec_world", channel::macsec_world),
    ("mka", wire::mka),
    ("mka_participant", channel::mka_participant),
    ("mqtt_enrol", mqtt::mqtt_enrol),
    ("mqtt_envelope", mqtt::mqtt_envelope),
    ("mqtt_keys", mqtt::mqtt_keys),
    ("mqtt_packet", mqtt::mqtt_packet),
    ("offload", gateway::offload),
    ("overlay", overlay::overlay),
    ("ppmp", wire::ppmp),
    ("profinet", wire::profinet),
    ("ptp", wire::ptp),
    ("reassembly", differential::reassembly),
    ("routed", wire::routed),
    ("sampled", wire::sampled),
    ("scl", scl::scl),
    ("sealed_open", fleet::sealed_open),
    ("text", wire::text),
    ("tlv", wire::tlv),
    ("vxlan", wire::vxlan),
    ("wireguard_message", wireguard::wireguard_message),
    ("wireguard_receive", wireguard::wireguard_receive),
];

/// The seeds of a target: one per line, in hexadecimal; a `#` starts a comment.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/seeds/{target}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| hex(line).unwrap_or_else(|| panic!("{path}: {line}")))
        .collect()
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}
