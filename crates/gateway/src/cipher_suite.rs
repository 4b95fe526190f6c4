//! Stands in for the channel's type until that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CipherSuite {
    GcmAes128,
    GcmAes256,
    GcmAesXpn128,
    GcmAesXpn256,
}
impl CipherSuite {
    pub fn key_len(self) -> usize {
        match self {
            Self::GcmAes128 | Self::GcmAesXpn128 => 16,
            _ => 32,
        }
    }
    pub fn is_xpn(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::GcmAes128 => "gcm-aes-128",
            Self::GcmAes256 => "gcm-aes-256",
            Self::GcmAesXpn128 => "gcm-aes-xpn-128",
            Self::GcmAesXpn256 => "gcm-aes-xpn-256",
        }
    }
}
