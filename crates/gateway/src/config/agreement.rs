//! Settings of key agreement: `[macsec]` with a `cak_file`.

use std::path::PathBuf;
use std::time::Duration;

use antedate_wire::EthernetAddress;

/// The priority as a key server when the file does not say: better than wpa_supplicant's 255, and room on both sides.
pub const PRIORITY: u8 = 128;

/// How long a SAK is used when the file does not say.
pub const REKEY: Duration = Duration::from_secs(8 * 3600);

/// `[macsec]` with a `cak_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file with CAK and CKN.
    pub cak_file: PathBuf,
    /// Where MKPDUs are sent.
    pub destination: EthernetAddress,
    /// The lower, the rather the key server; 255 never.
    pub priority: u8,
    /// As key server, has all members discard frames that are late.
    pub delay_protect: bool,
    /// How long a SAK is used. `None`: until its packet numbers end.
    pub rekey_after: Option<Duration>,
}
