//! `io` in `[field]` and `[uplink]`: how frames leave by a port.

/// How frames leave, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// By AF_XDP where that was measured to pay, and where it can be.
    #[default]
    Auto,
    /// By a packet socket.
    Ring,
    /// By AF_XDP.
    Xdp,
}

impl Io {
    /// The names in a configuration.
    pub(super) const NAMES: [(&str, Self); 3] =
        [("auto", Self::Auto), ("ring", Self::Ring), ("xdp", Self::Xdp)];
}

/// How frames leave by a port, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leave {
    /// Whether by AF_XDP.
    pub xdp: bool,
    /// Whether AF_XDP is configured, and the gateway does not start without it.
    pub must: bool,
    /// Whether frames that leave by different sockets stay in order.
    pub in_order: bool,
    /// The reason.
    pub why: String,
}

impl Leave {
    /// The name of this way, as in a status.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.xdp { XDP } else { RING }
    }
}

/// The names of the ways.
pub const RING: &str = "ring";
/// AF_XDP.
pub const XDP: &str = "xdp";

/// The transmit side of an interface that AF_XDP can send on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Card {
    /// Its transmit queues.
    pub queues: u32,
    /// Its driver, if it tells.
    pub driver: Option<String>,
}
