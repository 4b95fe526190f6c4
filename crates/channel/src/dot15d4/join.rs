//! Joining a network of TSCH by an enhanced beacon (clause 6.3.6, RFC 8180).
//!
//! A device without a network does not know the slot, which the nonce of a beacon is made of. The
//! beacon tells it in its authenticated payload, so the device takes the slot from there and then
//! verifies the MIC.

use antedate_wire::dot15d4::advertisement::Advertisement;
use antedate_wire::dot15d4::{FormatError, Frame, MAX_FRAME_LEN};

use super::key::KEY_LEN;
use super::nonce::{self, NonceKind, Source};
use super::policy::Kind;
use super::{Address, Asn, Device, ExtendedAddress, FrameType, PanId, Security, SecurityLevel, Status};

/// The key for beacons (K1) of networks whose beacons anybody may read and forge (RFC 8180 section 6).
pub const WELL_KNOWN_K1: [u8; KEY_LEN] = *b"6TiSCH minimal15";

/// A beacon of a network to join.
#[derive(Debug, Clone)]
pub struct Invitation<'f> {
    /// its sender
    pub from: ExtendedAddress,
    /// its PAN
    pub pan: PanId,
    /// its slot, template and slotframes
    pub advertisement: Advertisement<'f>,
}

impl Invitation<'_> {
    /// The slot of the beacon.
    pub const fn asn(&self) -> Asn {
        self.advertisement.synchronization.asn
    }

    /// The sender, for the device table. `exempt` lets it send unsecured frames where a rule lets
    /// exempt devices do so, as a join proxy does until the device has its keys (RFC 9031).
    pub const fn device(&self, exempt: bool) -> Device {
        Device { pan: self.pan, extended: self.from, short: None, exempt }
    }
}

impl Security {
    /// Reads a beacon without FCS, of a device that need not be known, in a slot that is not known.
    /// The policy and the keys are those for beacons. Nothing is recorded: with a key that others know
    /// ([`WELL_KNOWN_K1`]) anybody could name the last slot and keep genuine beacons out.
    ///
    /// # Errors
    ///
    /// The reason for a refusal: among others `COUNTER_ERROR` for a slot in which we could not send,
    /// because slots up to it were used or none is reserved after it, as after a replay of an old
    /// beacon; `UNSUPPORTED_SECURITY` for an encrypted beacon, whose slot nobody without the slot can
    /// read.
    pub fn invitation<'f>(&mut self, octets: &'f [u8]) -> Result<Invitation<'f>, Status> {
        let result = self.try_invitation(octets);
        match &result {
            Ok((_, true)) => self.received.secured += 1,
            Ok((_, false)) => self.received.unsecured += 1,
            Err(status) => self.received.refuse(*status),
        }
        result.map(|(invitation, _)| invitation)
    }

    fn try_invitation<'f>(&self, octets: &'f [u8]) -> Result<(Invitation<'f>, bool), Status> {
        let frame = Frame::parse(octets)?;
        let (header, kind) = (&frame.header, Kind::of(&frame)?);
        let no_beacon = Status::Malformed(FormatError::Beacon);
        let Address::Extended(from) = header.addressing.src else { return Err(no_beacon) };
        let pan = header.addressing.source_pan().ok_or(no_beacon)?;
        if header.frame_type != FrameType::Beacon {
            return Err(no_beacon);
        }
        let exempt = self.device(from).is_some_and(|device| device.exempt);
        self.config.policy.check(kind, header.level(), exempt)?;
        if header.level().is_encrypted() {
            return Err(Status::UnsupportedSecurity);
        }
        let advertisement = Advertisement::parse(frame.payload())?;
        let asn = advertisement.synchronization.asn;
        let used =
            |entry: &super::key::KeyEntry| entry.nonces == NonceKind::Asn && entry.numbers.is_past(asn);
        if self.keys.iter().any(used) {
            return Err(Status::CounterError);
        }
        let invitation = Invitation { from, pan, advertisement };
        let Some(security) = header.security else { return Ok((invitation, false)) };
        if security.level == SecurityLevel::None || !security.asn_in_nonce {
            return Err(Status::UnsupportedSecurity);
        }
        let source = Address::Extended(from);
        let key = self.keys.incoming(security.key, Some(pan), source, None).ok_or(Status::UnavailableKey)?;
        let entry = self.keys.iter().nth(key).ok_or(Status::UnavailableKey)?;
        if !entry.usage.permits(kind) || entry.nonces != NonceKind::Asn {
            return Err(Status::ImproperKeyType);
        }
        if asn.number() < entry.lowest(from, false) {
            return Err(Status::CounterError);
        }
        let nonce = nonce::slotted(Source::Extended(from), asn);
        let mut payload = [0; MAX_FRAME_LEN];
        let payload = payload.get_mut(..frame.payload().len()).ok_or(Status::FrameTooLong)?;
        entry.cipher.unsecure(security.level, nonce, &frame, payload)?;
        Ok((invitation, true))
    }
}
