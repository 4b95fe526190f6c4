//! Counters of a SecY (IEEE 802.1AE-2018 clause 10.7), and counters of our own for events that the
//! standard does not name.
//!
//! The counts are sums over all secure channels of a [`Transmit`](super::Transmit) or
//! [`Receive`](super::Receive). 802.1AE-2018 merges two pairs of counters of the first edition
//! (InPktsNoSA, InPktsNoSAError). The separate counters are provided, as in Linux.

macro_rules! counters {
    (
        $( #[$meta:meta] )*
        pub struct $name:ident { $( $( #[$field_meta:meta] )* $field:ident = $label:literal, )+ }
    ) => {
        $( #[$meta] )*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $( $( #[$field_meta] )* pub $field: u64, )+
        }

        impl $name {
            /// Each counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( ($label, self.$field) ),+].into_iter()
            }
        }
    };
}

counters! {
    /// Counters of the transmit side.
    pub struct TransmitCounters {
        /// frames sent without a SecTAG: 0, because a channel protects every frame
        out_pkts_untagged = "OutPktsUntagged",
        /// frames discarded because they would exceed the port's maximum length when protected
        out_pkts_too_long = "OutPktsTooLong",
        /// frames integrity protected
        out_pkts_protected = "OutPktsProtected",
        /// frames encrypted
        out_pkts_encrypted = "OutPktsEncrypted",
        /// octets of user data integrity protected
        out_octets_protected = "OutOctetsProtected",
        /// octets of user data encrypted
        out_octets_encrypted = "OutOctetsEncrypted",
        /// ours: frames discarded because no secure association encodes
        out_discarded_no_sa = "OutDiscardedNoSA",
        /// ours: frames discarded because all packet numbers of the association are used
        out_discarded_exhausted = "OutDiscardedExhausted",
        /// ours: frames discarded because the next packet number is not reserved yet
        out_discarded_not_reserved = "OutDiscardedNotReserved",
        /// ours: frames discarded because they are malformed, or do not fit the caller's buffer
        out_discarded_malformed = "OutDiscardedMalformed",
        /// ours: frames discarded because their source is not the SCI's, as an end station's SecTAG
        /// requires
        out_discarded_foreign_source = "OutDiscardedForeignSource",
        /// ours: frames sent in fragments
        out_frames_fragmented = "OutFramesFragmented",
        /// ours: the fragments of those frames
        out_fragments = "OutFragments",
        /// ours: frames whose packet number was fully prepared in advance
        out_prepared = "OutPrepared",
        /// frames protected by the flow tables
        out_by_tables = "OutByTables",
    }
}

counters! {
    /// Counters of the receive side. Each frame is counted once among the `in_pkts` and
    /// `in_discarded` fields.
    pub struct ReceiveCounters {
        /// frames without a SecTAG, delivered
        in_pkts_untagged = "InPktsUntagged",
        /// frames without a SecTAG, discarded
        in_pkts_no_tag = "InPktsNoTag",
        /// ours: EAPOL PDUs, which are for key agreement on the uncontrolled port
        in_pkts_uncontrolled = "InPktsUncontrolled",
        /// frames with an invalid SecTAG or a wrong length, discarded
        in_pkts_bad_tag = "InPktsBadTag",
        /// frames of an unknown secure channel, discarded
        in_pkts_no_sci = "InPktsNoSCI",
        /// frames of an unknown secure channel, delivered
        in_pkts_unknown_sci = "InPktsUnknownSCI",
        /// frames of a secure association not in use, discarded
        in_pkts_not_using_sa = "InPktsNotUsingSA",
        /// frames of a secure association not in use, delivered
        in_pkts_unused_sa = "InPktsUnusedSA",
        /// frames below the lowest acceptable packet number, or received before, discarded
        in_pkts_late = "InPktsLate",
        /// ours: frames received before, which the other of two paths brought, discarded
        in_pkts_copies = "InPktsCopies",
        /// frames with a wrong ICV, discarded
        in_pkts_not_valid = "InPktsNotValid",
        /// frames with a wrong ICV, delivered
        in_pkts_invalid = "InPktsInvalid",
        /// valid frames below the lowest acceptable packet number, delivered without replay protection
        in_pkts_delayed = "InPktsDelayed",
        /// frames not validated, delivered
        in_pkts_unchecked = "InPktsUnchecked",
        /// valid frames, delivered
        in_pkts_ok = "InPktsOK",
        /// octets of user data of valid frames that were integrity protected only
        in_octets_validated = "InOctetsValidated",
        /// octets of user data of valid frames that were encrypted
        in_octets_decrypted = "InOctetsDecrypted",
        /// ours: frames discarded because they do not fit the caller's buffer
        in_discarded_too_long = "InDiscardedTooLong",
    }
}

impl ReceiveCounters {
    /// All frames delivered.
    pub const fn delivered(&self) -> u64 {
        self.in_pkts_untagged
            + self.in_pkts_unknown_sci
            + self.in_pkts_unused_sa
            + self.in_pkts_invalid
            + self.in_pkts_delayed
            + self.in_pkts_unchecked
            + self.in_pkts_ok
    }

    /// All frames discarded.
    pub const fn discarded(&self) -> u64 {
        self.in_pkts_no_tag
            + self.in_pkts_uncontrolled
            + self.in_pkts_bad_tag
            + self.in_pkts_no_sci
            + self.in_pkts_not_using_sa
            + self.in_pkts_late
            + self.in_pkts_copies
            + self.in_pkts_not_valid
            + self.in_discarded_too_long
    }
}
