//! Counters of dropped frames and packets, by reason.

use crate::frames::gate::Way;

macro_rules! drops {
    ($( $(#[$meta:meta])* $field:ident, $way:ident, $name:literal; )*) => {
        /// Frames and packets that an overlay dropped, by reason.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct Drops { $( $(#[$meta])* pub $field: u64, )* }

        impl Drops {
            /// The counters with their direction and names.
            pub fn named(&self) -> impl Iterator<Item = (Way, &'static str, u64)> {
                [$( (Way::$way, $name, self.$field), )*].into_iter()
            }
        }
    };
}

drops! {
    /// frames to groups and unknown addresses above the limit, from the field
    storm_out, Out, "storm-out";
    /// the same, from the peers
    storm_in, In, "storm-in";
    /// frames for the peer of another worker that has too many, or another place by now
    not_passed, Out, "worker-busy";
    /// frames to a machine on the field itself
    local, Out, "local";
    /// frames from one peer to a machine behind another, without relay
    not_relayed, In, "not-relayed";
    /// frames from the field whose source has a place behind a peer
    elsewhere_out, Out, "source-elsewhere";
    /// frames from a peer whose source has another place
    elsewhere, In, "source-elsewhere";
    /// frames from the field that no bridge forwards, without a name in the policy
    reserved_out, Out, "reserved-address";
    /// the same, from the peers
    reserved_in, In, "reserved-address";
    /// packets marked by the network for congestion, whose ends do not understand the mark
    congested, In, "congestion-mark";
    /// datagrams from unknown addresses, without WireGuard or on the second uplink
    stranger, In, "stranger";
    /// packets with another tunnel address than the peer's or ours
    foreign_address, In, "foreign-address";
    /// packets that are not IPv4
    not_ipv4, In, "not-ipv4";
    /// packets that are not VXLAN
    not_vxlan, In, "not-vxlan";
    /// packets with wrong lengths or checksums
    damaged, In, "damaged";
    /// packets of another VXLAN network
    other_vni, In, "other-vni";
    /// unknown messages between Antedate peers
    unknown_message, In, "unknown-message";
}
