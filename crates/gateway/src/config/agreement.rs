//! Settings of key agreement: `[macsec]` with a `cak_file`.

use std::path::PathBuf;
use std::time::Duration;

use antedate_wire::EthernetAddress;

/// The key-server priority when the file gives none. Better than wpa_supplicant's 255, with values
/// free on both sides.
pub const PRIORITY: u8 = 128;

/// The lifetime of a SAK when the file gives none.
pub const REKEY: Duration = Duration::from_secs(8 * 3600);

/// The keys of `[macsec]` for key agreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file with CAK and CKN.
    pub cak_file: PathBuf,
    /// The destination addresses of MKPDUs: one, or those of
    /// [`AUTOMATIC`](antedate_channel::mka::AUTOMATIC).
    pub destinations: Vec<EthernetAddress>,
    /// The key-server priority: the lowest is elected, 255 never.
    pub priority: u8,
    /// Whether this gateway, as key server, enables delay protection for all members.
    pub delay_protect: bool,
    /// The lifetime of a SAK. `None`: until its packet numbers are used up.
    pub rekey_after: Option<Duration>,
}
