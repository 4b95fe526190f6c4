//! The express channel of a gateway: a second secure channel, for frames with deadlines.

pub use antedate_channel::macsec::{express_sci, express_ssci};
