//! Definitions shared by IPv4 and IPv6.

wire_enum! {
    /// The payload of an IP packet.
    pub enum Protocol(u8) {
        /// options for every hop (IPv6)
        HopByHop = 0,
        /// ICMP
        Icmp = 1,
        /// TCP
        Tcp = 6,
        /// UDP
        Udp = 17,
        /// a routing header (IPv6)
        Routing = 43,
        /// a fragment (IPv6)
        Fragment = 44,
        /// ICMPv6
        Icmpv6 = 58,
        /// nothing more (IPv6)
        NoNext = 59,
        /// options for the destination (IPv6)
        DestinationOptions = 60,
    }
}
