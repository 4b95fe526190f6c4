//! What an overlay drops, by reason.

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
    /// frames to groups and unknown addresses beyond the limit, from the field
    storm_out, "storm-out";
    /// and from the peers
    storm_in, "storm-in";
    /// frames for a machine that is on the field itself
    local, "local";
    /// frames from one peer for a machine behind another one, where nothing is relayed
    not_relayed, "not-relayed";
    /// frames whose source is known to be elsewhere
    elsewhere, "source-elsewhere";
    /// datagrams from an address of no peer, without WireGuard or by the second uplink
    stranger, "stranger";
    /// packets whose source is not the peer's address in the tunnel, or whose destination is not ours
    foreign_address, "foreign-address";
    /// packets that are not IPv4
    not_ipv4, "not-ipv4";
    /// packets that are not VXLAN
    not_vxlan, "not-vxlan";
    /// packets with wrong lengths or checksums
    damaged, "damaged";
    /// packets of another network
    other_vni, "other-vni";
    /// messages between Antedate ends that are not understood
    unknown_message, "unknown-message";
}
