//! Reasons why a message of a handshake does not fit. They are counted, and kept for reports.

/// A reason.
pub(super) type Misfit = &'static str;
pub(super) const UNKNOWN_IDENTITY: Misfit = "nobody has the client's identity";
pub(super) const WRONG_FINISHED: Misfit = "the Finished is wrong";
pub(super) const OTHER_KEY: Misfit = "the peer's records do not verify: it has another key for this identity";
pub(super) const WRONG_SIGNATURE: Misfit =
    "the peer's signature is wrong: it does not have the key that it shows";
pub(super) const NO_COMMON_TYPE: Misfit = "one side has a certificate and the other wants a raw public key, or the reverse; give both the same kind";
