//! The master secrets of all connections, for Wireshark and `antedate inspect`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use antedate_channel::dtls::Connection;
use antedate_host::fault::Fault;
use antedate_host::hex::push_hex;
use antedate_host::{private_file, process};
use zeroize::Zeroizing;

/// A file of lines `CLIENT_RANDOM RANDOM SECRET`, the format of NSS.
#[derive(Debug, Clone)]
pub struct KeyLog(Arc<File>);

impl KeyLog {
    /// Opens the file to append to it, which warns in the log.
    ///
    /// # Errors
    /// When others have rights on it, or it cannot be written.
    pub fn open(file: &Path) -> Result<Self, Fault> {
        let open = private_file::open_key_log(file, process::user())?;
        tracing::warn!(file = %file.display(), "KEYS ARE WRITTEN DOWN: whoever reads the file reads all traffic of this run");
        Ok(Self(Arc::new(open)))
    }

    /// Writes the secret of an established connection.
    pub(crate) fn write(&self, connection: &Connection) {
        let Some((random, master)) = connection.key_log() else { return };
        let mut text = Zeroizing::new(String::with_capacity(256));
        text.push_str("CLIENT_RANDOM ");
        push_hex(&mut text, &random);
        text.push(' ');
        push_hex(&mut text, &master[..]);
        text.push('\n');
        if let Err(error) = (&*self.0).write_all(text.as_bytes()) {
            tracing::error!(%error, "the key log cannot be written");
        }
    }
}
