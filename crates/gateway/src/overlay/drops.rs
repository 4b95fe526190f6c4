//! Counters of dropped frames and packets, by reason.

macro_rules! drops {
    ($( $(#[$meta:meta])* $field:ident, $name:literal; )*) => {
        /// Frames and packets that an overlay dropped, by reason.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct Drops { $( $(#[$meta])* pub $field: u64, )* }

        impl Drops {
            /// The counters with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( ($name, self.$field), )*].into_iter()
            }
        }
    };
}

drops! {
    /// frames to groups and unknown addresses above the limit, from the field
    storm_out, "storm-out";
    /// the same, from the peers
    storm_in, "storm-in";
    /// frames to a machine on the field itself
    local, "local";
    /// frames from one peer to a machine behind another, without relay
    not_relayed, "not-relayed";
    /// frames from a source with another known place
    elsewhere, "source-elsewhere";
    /// datagrams from unknown addresses, without WireGuard or on the second uplink
    stranger, "stranger";
    /// packets with another tunnel address than the peer's or ours
    foreign_address, "foreign-address";
    /// packets that are not IPv4
    not_ipv4, "not-ipv4";
    /// packets that are not VXLAN
    not_vxlan, "not-vxlan";
    /// packets with wrong lengths or checksums
    damaged, "damaged";
    /// packets of another VXLAN network
    other_vni, "other-vni";
    /// unknown messages between Antedate peers
    unknown_message, "unknown-message";
}
