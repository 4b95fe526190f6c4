//! Securing and unsecuring frames (clauses 9.2.1 and 9.2.3), each procedure from top to bottom.

use alloc::vec::Vec;
use core::fmt;

use antedate_wire::dot15d4::ie::{Following, PayloadIes};
use antedate_wire::dot15d4::{
    Address, Asn, ExtendedAddress, FCS_LEN, Frame, FrameType, Header, KeyIdentifier, MAX_FRAME_LEN, PanId,
    SecurityHeader, SecurityLevel, ShortAddress,
};

use super::key::{InstallError, KeyConfig, KeyLookup, Keys};
use super::nonce::{self, NonceKind, Source};
use super::policy::Kind;
use super::{Counters, Device, Policy, Status};

/// Configuration of the own device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// our extended address, used in nonces
    pub extended: ExtendedAddress,
    /// our PAN
    pub pan: PanId,
    /// our short address, if we have one
    pub short: Option<ShortAddress>,
    /// the rules for accepting frames
    pub policy: Policy,
    /// permits level 4, whose frames can be changed in transit, and which the standard removed in
    /// 2015
    pub enc_without_mic: bool,
}

/// The protection of an outgoing frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// the level; `None` sends it unsecured
    pub level: SecurityLevel,
    /// the key's name in the frame
    pub key: KeyIdentifier,
}

/// An accepted frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// its header
    pub header: Header,
    /// octets of the MAC payload, at the start of the output
    pub len: usize,
    /// the sender, if known
    pub device: Option<ExtendedAddress>,
}

/// The security of one device: its keys, the devices it knows, and its policy.
pub struct Security {
    pub(super) config: Config,
    pub(super) keys: Keys,
    pub(super) devices: Vec<Device>,
    pub(super) sent: Counters,
    pub(super) received: Counters,
}

impl Security {
    /// A device without keys that knows no other device.
    pub fn new(config: Config) -> Self {
        let (sent, received) = Default::default();
        Self { config, keys: Keys::default(), devices: Vec::new(), sent, received }
    }

    /// The own device's configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a device, or replaces the entry of its extended address. Its accepted numbers are kept.
    pub fn add_device(&mut self, device: Device) {
        self.devices.retain(|known| known.extended != device.extended);
        self.devices.reserve_exact(1);
        self.devices.push(device);
    }

    /// The entry of a device.
    pub fn device(&self, extended: ExtendedAddress) -> Option<&Device> {
        self.devices.iter().find(|known| known.extended == extended)
    }

    /// Takes part in a PAN from now on, with a short address in it.
    pub const fn set_pan(&mut self, pan: PanId, short: Option<ShortAddress>) {
        (self.config.pan, self.config.short) = (pan, short);
    }

    /// Removes a device. Its accepted numbers are kept, so old frames stay refused if it is added
    /// again.
    pub fn remove_device(&mut self, extended: ExtendedAddress) {
        self.devices.retain(|known| known.extended != extended);
    }

    /// Installs a key.
    pub fn install_key(&mut self, config: KeyConfig) -> Result<(), InstallError> {
        self.keys.install(config)
    }

    /// Removes a key. It cannot be installed again.
    pub fn remove_key(&mut self, lookup: &KeyLookup) -> bool {
        self.keys.remove(lookup)
    }

    /// The names of the keys.
    pub fn keys(&self) -> impl Iterator<Item = KeyLookup> + '_ {
        self.keys.iter().map(|entry| entry.lookup)
    }

    /// Allows numbers below `limit` for a key. The caller has durably recorded them as possibly
    /// used. A limit below the present one changes nothing.
    pub fn reserve_until(&mut self, lookup: &KeyLookup, limit: u64) {
        if let Some(entry) = self.keys.get_mut(lookup) {
            entry.numbers.reserve_until(limit);
        }
    }

    /// The next number of a key, and its limit.
    pub fn numbers(&self, lookup: &KeyLookup) -> Option<(u64, u64)> {
        self.keys.get(lookup).map(|entry| (entry.numbers.next(), entry.numbers.limit()))
    }

    /// For each device heard with a key, a number above all accepted ones: the lowest acceptable one
    /// after a restart.
    pub fn heard(&self, lookup: &KeyLookup) -> Vec<(ExtendedAddress, u64)> {
        self.keys.get(lookup).map_or_else(Vec::new, |entry| entry.heard().collect())
    }

    /// Counters for sending.
    pub const fn sent(&self) -> &Counters {
        &self.sent
    }

    /// Counters for receiving.
    pub const fn received(&self) -> &Counters {
        &self.received
    }

    /// Secures a frame into `out` and returns its length, without an FCS. `header` holds everything
    /// but the auxiliary security header, `ies` are its header elements as sent, and `payload` is
    /// the MAC payload. With nonces by slot, `asn` is the slot of transmission.
    ///
    /// # Errors
    ///
    /// After an error `out` holds nothing that may be sent, and no number was used.
    pub fn secure(
        &mut self,
        header: &Header,
        ies: &[u8],
        payload: &[u8],
        protection: Protection,
        asn: Option<Asn>,
        out: &mut [u8],
    ) -> Result<usize, Status> {
        let result = self.try_secure(header, ies, payload, protection, asn, out);
        match result {
            Ok(_) if protection.level == SecurityLevel::None => self.sent.unsecured += 1,
            Ok(_) => self.sent.secured += 1,
            Err(status) => self.sent.refuse(status),
        }
        result
    }

    fn try_secure(
        &mut self,
        header: &Header,
        ies: &[u8],
        payload: &[u8],
        protection: Protection,
        asn: Option<Asn>,
        out: &mut [u8],
    ) -> Result<usize, Status> {
        let plan = self.plan(header, protection, asn)?;
        let len = lay_out(&plan.header, ies, payload, out)?;
        let Some(key) = plan.key else { return Ok(len) };
        // The frame itself tells its private part and its command.
        let frame = Frame::parse(out.get(..len).ok_or(Status::FrameTooLong)?)?;
        let (open, kind) = (frame.open().len(), Kind::of_plain(&frame, frame.payload())?);
        let entry = self.keys.at(key).ok_or(Status::UnavailableKey)?;
        if !entry.usage.permits(kind) {
            return Err(Status::ImproperKeyType);
        }
        entry.numbers.take(plan.number);
        let frame = out.get_mut(..len).ok_or(Status::FrameTooLong)?;
        entry.cipher.secure(protection.level, plan.nonce, frame, open);
        Ok(len)
    }

    /// The header with its auxiliary security header, and the key, number and nonce of the frame.
    pub(super) fn plan(
        &self,
        header: &Header,
        protection: Protection,
        asn: Option<Asn>,
    ) -> Result<Plan, Status> {
        let Protection { level, key: identifier } = protection;
        let mut header = *header;
        header.security = None;
        if level == SecurityLevel::None {
            return Ok(Plan { header, key: None, number: 0, nonce: [0; nonce::NONCE_LEN] });
        }
        if level == SecurityLevel::Enc && !self.config.enc_without_mic {
            return Err(Status::UnsupportedSecurity);
        }
        let to = &header.addressing;
        let peer = self.devices.iter().find(|device| device.is(to.destination_pan(), to.dst));
        let key = self.keys.outgoing(identifier, &header, peer).ok_or(Status::UnavailableKey)?;
        let entry = self.keys.iter().nth(key).ok_or(Status::UnavailableKey)?;
        let (security, number, nonce) = match entry.nonces {
            NonceKind::FrameCounter => {
                let number = entry.numbers.next();
                let counter = u32::try_from(number).map_err(|_| Status::CounterError)?;
                let nonce = nonce::counted(self.config.extended, counter, level);
                (SecurityHeader::counted(level, identifier, counter), number, nonce)
            }
            NonceKind::Asn => {
                let asn = asn.ok_or(Status::UnsupportedSecurity)?;
                let source = match header.addressing.src {
                    Address::Short(short) => {
                        Source::Short(header.addressing.source_pan().unwrap_or(self.config.pan), short)
                    }
                    _ => Source::Extended(self.config.extended),
                };
                (SecurityHeader::tsch(level, identifier), asn.number(), nonce::slotted(source, asn))
            }
        };
        entry.numbers.check(number)?;
        header.security = Some(security);
        Ok(Plan { header, key: Some(key), number, nonce })
    }

    /// Unsecures a frame without FCS into `out`: the decrypted MAC payload. With nonces by slot,
    /// `asn` is the slot of reception. A frame without source address, as an acknowledgment may be,
    /// is from `implied`.
    ///
    /// # Errors
    ///
    /// After a refusal `out` holds nothing of the frame, and only a counter has changed.
    pub fn unsecure(
        &mut self,
        frame: &[u8],
        asn: Option<Asn>,
        implied: Option<ExtendedAddress>,
        out: &mut [u8],
    ) -> Result<Received, Status> {
        let result = self.try_unsecure(frame, asn, implied, out);
        self.count_received(&result);
        result
    }

    pub(super) fn count_received(&mut self, result: &Result<Received, Status>) {
        match result {
            Ok(received) if received.header.security.is_none() => self.received.unsecured += 1,
            Ok(_) => self.received.secured += 1,
            Err(status) => self.received.refuse(*status),
        }
    }

    fn try_unsecure(
        &mut self,
        octets: &[u8],
        asn: Option<Asn>,
        implied: Option<ExtendedAddress>,
        out: &mut [u8],
    ) -> Result<Received, Status> {
        let frame = Frame::parse(octets)?;
        let accepted = self.accept(&frame, asn, implied)?;
        self.unsecure_accepted(&frame, &accepted, out)
    }

    /// Unsecures a frame that [`accept`](Self::accept) accepted.
    pub(super) fn unsecure_accepted(
        &mut self,
        frame: &Frame<'_>,
        accepted: &Accepted,
        out: &mut [u8],
    ) -> Result<Received, Status> {
        let len = frame.payload().len();
        let out = out.get_mut(..len).ok_or(Status::FrameTooLong)?;
        let received = Received { header: frame.header, len, device: accepted.device };
        let Some(key) = accepted.key else {
            self.check_content(frame, accepted, frame.payload())?;
            out.copy_from_slice(frame.payload());
            return Ok(received);
        };
        let entry = self.keys.at(key).ok_or(Status::UnavailableKey)?;
        entry.cipher.unsecure(frame.header.level(), accepted.nonce, frame, out)?;
        if let Err(status) = self.check_content(frame, accepted, out) {
            out.fill(0);
            return Err(status);
        }
        // Record the number only now.
        self.mark(frame, accepted);
        Ok(received)
    }

    /// Records the number of an authentic frame.
    pub(super) fn mark(&mut self, frame: &Frame<'_>, accepted: &Accepted) {
        let entry = accepted.key.and_then(|key| self.keys.at(key));
        if let (Some(entry), Some(device)) = (entry, accepted.device) {
            entry.mark(device, accepted.number, frame.header.frame_type == FrameType::Ack);
        }
    }

    /// Checks after decryption: whether payload elements are well-formed, and whether the policy and
    /// the key permit the command.
    pub(super) fn check_content(
        &self,
        frame: &Frame<'_>,
        accepted: &Accepted,
        payload: &[u8],
    ) -> Result<(), Status> {
        if frame.following() == Following::PayloadIes {
            PayloadIes::split(payload)?;
        }
        if Kind::of(frame)? != Kind::Encrypted {
            return Ok(());
        }
        let kind = Kind::of_plain(frame, payload)?;
        let entry = accepted.key.and_then(|key| self.keys.iter().nth(key)).ok_or(Status::UnavailableKey)?;
        let exempt = self.devices.iter().any(|d| Some(d.extended) == accepted.device && d.exempt);
        self.config.policy.check(kind, frame.header.level(), exempt)?;
        if entry.usage.permits(kind) { Ok(()) } else { Err(Status::ImproperKeyType) }
    }

    /// All checks before the cipher.
    pub(super) fn accept(
        &self,
        frame: &Frame<'_>,
        asn: Option<Asn>,
        implied: Option<ExtendedAddress>,
    ) -> Result<Accepted, Status> {
        let (header, kind) = (&frame.header, Kind::of(frame)?);
        let source = match (header.addressing.src, implied) {
            (Address::Absent, Some(extended)) => Address::Extended(extended),
            (source, _) => source,
        };
        let pan = header.addressing.source_pan();
        let device = self.devices.iter().find(|device| device.is(pan, source));
        let Some(security) = header.security else {
            let exempt = device.is_some_and(|device| device.exempt);
            self.config.policy.check(kind, SecurityLevel::None, exempt)?;
            let device = device.map(|device| device.extended);
            return Ok(Accepted { key: None, device, number: 0, nonce: [0; nonce::NONCE_LEN] });
        };
        let level = security.level;
        if level == SecurityLevel::None || (level == SecurityLevel::Enc && !self.config.enc_without_mic) {
            return Err(Status::UnsupportedSecurity);
        }
        let key = self.keys.incoming(security.key, pan, source, device).ok_or(Status::UnavailableKey)?;
        let device = device.ok_or(Status::UnavailableDevice)?;
        self.config.policy.check(kind, level, device.exempt)?;
        let entry = self.keys.iter().nth(key).ok_or(Status::UnavailableKey)?;
        if !entry.usage.permits(kind) {
            return Err(Status::ImproperKeyType);
        }
        let (number, nonce) = match (entry.nonces, security.asn_in_nonce, security.frame_counter) {
            (NonceKind::FrameCounter, false, Some(u32::MAX)) => return Err(Status::CounterError),
            (NonceKind::FrameCounter, false, Some(counter)) => {
                (u64::from(counter), nonce::counted(device.extended, counter, level))
            }
            (NonceKind::Asn, true, _) => {
                let asn = asn.ok_or(Status::UnsupportedSecurity)?;
                let source = match header.addressing.src {
                    Address::Short(short) => Source::Short(pan.unwrap_or(device.pan), short),
                    _ => Source::Extended(device.extended),
                };
                (asn.number(), nonce::slotted(source, asn))
            }
            // Suppressed frame counter without a slot number in its place: there is no nonce.
            (_, false, None) => return Err(Status::UnsupportedSecurity),
            _ => return Err(Status::ImproperKeyType),
        };
        if number < entry.lowest(device.extended, header.frame_type == FrameType::Ack) {
            return Err(Status::CounterError);
        }
        Ok(Accepted { key: Some(key), device: Some(device.extended), number, nonce })
    }
}

/// The parameters for securing a frame.
pub(super) struct Plan {
    pub(super) header: Header,
    pub(super) key: Option<usize>,
    pub(super) number: u64,
    pub(super) nonce: [u8; nonce::NONCE_LEN],
}

/// The parameters for unsecuring a frame.
pub(super) struct Accepted {
    pub(super) key: Option<usize>,
    pub(super) device: Option<ExtendedAddress>,
    pub(super) number: u64,
    pub(super) nonce: [u8; nonce::NONCE_LEN],
}

/// Writes header, elements, payload and space for the MIC, and returns their length.
pub(super) fn lay_out(header: &Header, ies: &[u8], payload: &[u8], out: &mut [u8]) -> Result<usize, Status> {
    if header.ies == ies.is_empty() {
        return Err(Status::InvalidHeader);
    }
    let header_len = header.buffer_len();
    let mic_at = header_len + ies.len() + payload.len();
    let len = mic_at + header.level().mic_len();
    if len + FCS_LEN > MAX_FRAME_LEN {
        return Err(Status::FrameTooLong);
    }
    let out = out.get_mut(..len).ok_or(Status::FrameTooLong)?;
    header.emit(out).map_err(|_| Status::InvalidHeader)?;
    let (front, mic) = out.split_at_mut(mic_at);
    let (_, behind) = front.split_at_mut(header_len);
    let (elements, content) = behind.split_at_mut(ies.len());
    elements.copy_from_slice(ies);
    content.copy_from_slice(payload);
    mic.fill(0);
    Ok(len)
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security")
            .field("config", &self.config)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}
