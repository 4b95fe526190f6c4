//! The keys of a connectivity association (IEEE 802.1X-2020 clauses 6.2 and 9.3), derived from the
//! CAK.

use core::fmt;

use aes::{Aes128, Aes256};
use aes_kw::{KwAes128, KwAes256};
use antedate_wire::EthernetAddress;
use antedate_wire::mka::{ICV_LEN, KeyIdentifier, MAX_CKN_LEN, MemberIdentifier};
use cmac::{Cmac, KeyInit, Mac};
use zeroize::{Zeroize, Zeroizing};

use crate::macsec::MAX_KEY_LEN;
use crate::secret::{Boxed, leaving_nothing};

/// Octets that the AES key wrap adds (RFC 3394).
pub(super) const WRAP_LEN: usize = 8;
/// Octets of an EAP method's master session key (RFC 5247).
pub const MSK_LEN: usize = 64;
/// Octets of the name that an EAP authentication gives.
const EAP_CKN_LEN: usize = 16;

/// A secret of 16 or 32 octets, wiped when dropped.
pub(super) struct Secret {
    octets: Boxed<MAX_KEY_LEN>,
    len: usize,
}

impl Secret {
    /// A secret of the octets that fit. The callers have checked the length.
    pub(super) fn new(octets: &[u8]) -> Self {
        let mut secret = Self { octets: Boxed::default(), len: octets.len().min(MAX_KEY_LEN) };
        for (to, from) in secret.octets.iter_mut().zip(octets) {
            *to = *from;
        }
        secret
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    fn cmac(&self, pieces: &[&[u8]]) -> [u8; 16] {
        fn run<M: Mac + KeyInit>(key: &[u8], pieces: &[&[u8]]) -> [u8; 16] {
            let mut out = [0; 16];
            // The length was checked when the secret was made.
            if let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) {
                pieces.iter().for_each(|piece| mac.update(piece));
                for (to, from) in out.iter_mut().zip(mac.finalize().into_bytes()) {
                    *to = from;
                }
            }
            out
        }
        leaving_nothing(|| match self.len {
            16 => run::<Cmac<Aes128>>(self.as_bytes(), pieces),
            _ => run::<Cmac<Aes256>>(self.as_bytes(), pieces),
        })
    }

    /// The key derivation function of clause 6.2.1: AES-CMAC in counter mode.
    pub(super) fn derive(&self, label: &[u8], context: &[&[u8]], octets: usize) -> Self {
        let bits = (octets as u16 * 8).to_be_bytes();
        let mut out = Self { octets: Boxed::default(), len: octets.min(MAX_KEY_LEN) };
        for (counter, chunk) in (1u8..).zip(out.octets.chunks_mut(16)) {
            let mut pieces = alloc::vec::Vec::with_capacity(4 + context.len());
            let counter = [counter];
            pieces.extend([&counter[..], label, &[0]]);
            pieces.extend_from_slice(context);
            pieces.push(&bits);
            let mut block = self.cmac(&pieces);
            chunk.copy_from_slice(&block);
            block.zeroize();
        }
        // Wipe the octets computed beyond the requested length.
        if let Some(rest) = out.octets.get_mut(out.len..) {
            rest.zeroize();
        }
        out
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The reason why octets are not a CAK or its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CakError {
    /// a CAK has 16 or 32 octets
    KeyLength(usize),
    /// a CKN has 1 to 32 octets
    NameLength(usize),
}

impl fmt::Display for CakError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength(len) => write!(f, "the CAK has {len} octets, it must have 16 or 32"),
            Self::NameLength(len) => write!(f, "the CKN has {len} octets, it must have 1 to 32"),
        }
    }
}

impl core::error::Error for CakError {}

/// The name of a CAK, which is not secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ckn {
    octets: [u8; MAX_CKN_LEN],
    len: usize,
}

impl Ckn {
    /// A name of 1 to 32 octets.
    pub fn new(octets: &[u8]) -> Result<Self, CakError> {
        if octets.is_empty() || octets.len() > MAX_CKN_LEN {
            return Err(CakError::NameLength(octets.len()));
        }
        let mut name = Self { octets: [0; MAX_CKN_LEN], len: octets.len() };
        for (to, from) in name.octets.iter_mut().zip(octets) {
            *to = *from;
        }
        Ok(name)
    }

    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    /// The name's contribution to the derivation of KEK and ICK: 16 octets, zero-padded.
    fn key_id(&self) -> &[u8] {
        self.octets.get(..16).unwrap_or_default()
    }
}

impl fmt::Debug for Ckn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ckn({})", antedate_wire::Hex(self.as_bytes()))
    }
}

/// A connectivity association key with its name. It cannot be copied, its `Debug` shows no secret,
/// and dropping it wipes it.
///
/// ```compile_fail
/// use antedate_channel::mka::Cak;
/// let cak = Cak::new(&[1; 16], b"name").unwrap();
/// let copy = cak.clone(); // a key is not copied
/// ```
pub struct Cak {
    name: Ckn,
    cak: Secret,
    kek: Secret,
    ick: Secret,
}

impl Cak {
    /// A CAK of 16 or 32 octets with a name of 1 to 32.
    pub fn new(cak: &[u8], name: &[u8]) -> Result<Self, CakError> {
        if !matches!(cak.len(), 16 | 32) {
            return Err(CakError::KeyLength(cak.len()));
        }
        Ok(Self::named(Secret::new(cak), Ckn::new(name)?))
    }

    /// The CAK that both ends of an EAP authentication derive (clause 6.2.2), of 16 octets, or 32
    /// for `long`. `addresses` are those of the two ends, in any order; `session` is the EAP
    /// Session-Id (RFC 5247).
    pub fn of_eap(msk: &[u8; MSK_LEN], session: &[u8], addresses: [EthernetAddress; 2], long: bool) -> Self {
        let [a, b] = addresses;
        let (low, high) = if a.0 < b.0 { (a.0, b.0) } else { (b.0, a.0) };
        let octets = if long { 32 } else { 16 };
        let key = Secret::new(&msk[..octets]);
        let cak = key.derive(b"IEEE8021 EAP CAK", &[&low, &high], octets);
        let derived = key.derive(b"IEEE8021 EAP CKN", &[session, &low, &high], EAP_CKN_LEN);
        // Sixteen octets are a name.
        let mut name = Ckn { octets: [0; MAX_CKN_LEN], len: EAP_CKN_LEN };
        for (to, from) in name.octets.iter_mut().zip(derived.as_bytes()) {
            *to = *from;
        }
        Self::named(cak, name)
    }

    fn named(cak: Secret, name: Ckn) -> Self {
        let derive = |label: &[u8]| cak.derive(label, &[name.key_id()], cak.len);
        Self { name, kek: derive(b"IEEE8021 KEK"), ick: derive(b"IEEE8021 ICK"), cak }
    }

    /// The name.
    pub const fn name(&self) -> &Ckn {
        &self.name
    }

    /// Whether both have the same key and name, in a time that does not depend on the keys.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let pairs = self.cak.octets.iter().zip(other.cak.octets.iter());
        let difference = pairs.fold(0, |difference, (a, b)| difference | (a ^ b));
        core::hint::black_box(difference) == 0 && self.cak.len == other.cak.len && self.name == other.name
    }

    /// The octets of the CAK, for the file that it is kept in.
    pub fn secret(&self) -> &[u8] {
        self.cak.as_bytes()
    }

    /// The ICV of an MKPDU (clause 9.4.1).
    pub fn icv(&self, covered: &[u8]) -> [u8; ICV_LEN] {
        self.ick.cmac(&[covered])
    }

    /// The key of hellos outside of MACsec, derived as those of clause 9.3 with a label of its own.
    pub fn hello_key(&self) -> HelloKey {
        HelloKey(self.cak.derive(b"Antedate hello", &[self.name.key_id()], self.cak.len))
    }

    /// A digest that stands for a SAK. Nobody can compute it without the CAK.
    pub(super) fn digest(&self, sak: &Secret) -> [u8; ICV_LEN] {
        self.icv(sak.as_bytes())
    }

    /// Checks an ICV in constant time.
    pub(super) fn verify(&self, covered: &[u8], icv: &[u8; ICV_LEN]) -> bool {
        is_same(&self.icv(covered), icv)
    }

    /// Derives a SAK (clause 9.8.1) from a nonce, the identifiers of all intended users, and its
    /// number.
    pub(super) fn sak(&self, nonce: &[u8], members: &[MemberIdentifier], number: u32) -> Secret {
        let number = number.to_be_bytes();
        let mut context: alloc::vec::Vec<&[u8]> = alloc::vec![nonce];
        context.extend(members.iter().map(|member| &member.0[..]));
        context.push(&number);
        self.cak.derive(b"IEEE8021 SAK", &context, nonce.len())
    }

    /// Wraps a SAK (RFC 3394). Returns the octets and their number.
    pub(super) fn wrap(&self, sak: &Secret) -> ([u8; MAX_KEY_LEN + WRAP_LEN], usize) {
        let mut out = [0; MAX_KEY_LEN + WRAP_LEN];
        let kek = self.kek.as_bytes();
        // Neither call can fail: KEK and SAK have one of two lengths, and the buffer fits the
        // longer one.
        let len = leaving_nothing(|| match self.kek.len {
            16 => KwAes128::new_from_slice(kek)
                .ok()
                .and_then(|kw| kw.wrap_key(sak.as_bytes(), &mut out).ok().map(<[u8]>::len)),
            _ => KwAes256::new_from_slice(kek)
                .ok()
                .and_then(|kw| kw.wrap_key(sak.as_bytes(), &mut out).ok().map(<[u8]>::len)),
        });
        (out, len.unwrap_or(0))
    }

    /// Unwraps a SAK. `None` if it was not wrapped with this KEK.
    pub(super) fn unwrap(&self, wrapped: &[u8]) -> Option<Secret> {
        let mut out = Zeroizing::new([0; MAX_KEY_LEN]);
        let kek = self.kek.as_bytes();
        let sak = leaving_nothing(|| match self.kek.len {
            16 => KwAes128::new_from_slice(kek).ok()?.unwrap_key(wrapped, &mut out[..]).ok(),
            _ => KwAes256::new_from_slice(kek).ok()?.unwrap_key(wrapped, &mut out[..]).ok(),
        })?;
        Some(Secret::new(sak))
    }

    #[cfg(test)]
    pub(super) fn derived(&self) -> (&[u8], &[u8]) {
        (self.ick.as_bytes(), self.kek.as_bytes())
    }
}

impl fmt::Debug for Cak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cak({:?}, ..)", self.name)
    }
}

/// Compares ICVs in constant time.
fn is_same(right: &[u8; ICV_LEN], icv: &[u8; ICV_LEN]) -> bool {
    let difference = right.iter().zip(icv).fold(0, |difference, (a, b)| difference | (a ^ b));
    core::hint::black_box(difference) == 0
}

/// The key of hellos outside of MACsec ([`Cak::hello_key`]). It cannot be copied, its `Debug` shows
/// no secret, and dropping it wipes it.
#[derive(Debug)]
pub struct HelloKey(Secret);

impl HelloKey {
    /// The ICV of these octets (AES-CMAC).
    pub fn icv(&self, covered: &[u8]) -> [u8; ICV_LEN] {
        self.0.cmac(&[covered])
    }

    /// Checks an ICV in constant time.
    pub fn verify(&self, covered: &[u8], icv: &[u8; ICV_LEN]) -> bool {
        is_same(&self.icv(covered), icv)
    }
}

/// The salt of an XPN cipher suite (clause 9.8.1): the key server's member identifier, with its
/// first four octets combined with the key number.
pub(super) fn salt(key: KeyIdentifier) -> [u8; 12] {
    let mut salt = key.server.0;
    let [a, b, c, d] = key.number.to_be_bytes();
    // The number's lower half comes first.
    for (octet, number) in salt.iter_mut().zip([c, d, a, b]) {
        *octet ^= number;
    }
    salt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_wrapped_sak_is_refused() {
        for len in [16, 32] {
            let cak = Cak::new(&[7; 32][..len], b"name").unwrap();
            for sak in [16, 32] {
                let sak = Secret::new(&[9; 32][..sak]);
                let (mut wrapped, len) = cak.wrap(&sak);
                assert_eq!(len, sak.len + WRAP_LEN);
                assert_eq!(cak.unwrap(&wrapped[..len]).unwrap().as_bytes(), sak.as_bytes());
                wrapped[3] ^= 1;
                assert!(cak.unwrap(&wrapped[..len]).is_none());
            }
            assert!(cak.unwrap(&[0; 20]).is_none() && cak.unwrap(&[]).is_none());
        }
    }

    #[test]
    fn wrapping_follows_rfc_3394() {
        // RFC 3394, 4.1: 128 bits of key data with a 128-bit KEK.
        let cak = Cak {
            kek: Secret::new(&core::array::from_fn::<u8, 16, _>(|i| i as u8)),
            ..Cak::new(&[0; 16], b"n").unwrap()
        };
        let data: [u8; 16] = core::array::from_fn(|i| (i * 0x11) as u8);
        let (wrapped, len) = cak.wrap(&Secret::new(&data));
        assert_eq!(
            wrapped[..len],
            [
                0x1f, 0xa6, 0x8b, 0x0a, 0x81, 0x12, 0xb4, 0x47, 0xae, 0xf3, 0x4b, 0xd8, 0xfb, 0x5a, 0x7b,
                0x82, 0x9d, 0x3e, 0x86, 0x23, 0x71, 0xd2, 0xcf, 0xe5
            ]
        );
    }

    #[test]
    fn icv_with_two_equal_changes_is_wrong() {
        let cak = Cak::new(&[7; 16], b"name").unwrap();
        let icv = cak.icv(b"covered");
        assert!(cak.verify(b"covered", &icv));
        for at in 1..ICV_LEN {
            let mut changed = icv;
            changed[0] ^= 0x55;
            changed[at] ^= 0x55;
            assert!(!cak.verify(b"covered", &changed), "{at}");
        }
    }

    #[test]
    fn hello_key_is_another_key() {
        for len in [16, 32] {
            let [cak, other] = [7, 8].map(|octet| Cak::new(&[octet; 32][..len], b"name").unwrap());
            let key = cak.hello_key();
            let icv = key.icv(b"covered");
            assert!(key.verify(b"covered", &icv) && !key.verify(b"Covered", &icv));
            assert!(!cak.verify(b"covered", &icv) && !other.hello_key().verify(b"covered", &icv));
            assert!(!Cak::new(&[7; 32][..len], b"Name").unwrap().hello_key().verify(b"covered", &icv));
        }
    }

    #[test]
    fn eap_gives_the_cak_of_the_standard() {
        // Computed by OpenSSL's CMAC.
        let cases = [
            (false, "a5c2dc5ce15409565cee452da7099b19", "1a631fdafd29b245fa0ac3234127995e"),
            (
                true,
                "2457b66fcc83cc0a69977d740bdae23e49a0defa6027c58d85031deb44ae97f2",
                "bdf46103f6208b2c41959ac561a5b33d",
            ),
        ];
        let msk = core::array::from_fn(|i| i as u8);
        let session: [u8; 65] = core::array::from_fn(|i| if i == 0 { 0x0d } else { 99 + i as u8 });
        let [a, b] = [0xa2, 0xb2].map(|last| EthernetAddress([2, 0, 0, 0, 0, last]));
        for (long, key, name) in cases {
            for addresses in [[a, b], [b, a]] {
                let cak = Cak::of_eap(&msk, &session, addresses, long);
                let hex = |octets: &[u8]| alloc::format!("{}", antedate_wire::Hex(octets));
                assert_eq!((hex(cak.secret()), hex(cak.name().as_bytes())), (key.into(), name.into()));
                assert!(cak.is_same(&Cak::new(cak.secret(), cak.name().as_bytes()).unwrap()));
            }
        }
    }

    #[test]
    fn same_caks_have_the_same_octets_and_name() {
        let cak = |octets: &[u8], name: &[u8]| Cak::new(octets, name).unwrap();
        let own = cak(&[7; 16], b"name");
        assert!(own.is_same(&cak(&[7; 16], b"name")));
        assert!(!own.is_same(&cak(&[7; 16], b"other")));
        assert!(!own.is_same(&cak(&[[7; 16], [0; 16]].concat(), b"name")), "another length");
        for at in 0..16 {
            let mut octets = [7; 16];
            octets[at] ^= 0x55;
            assert!(!own.is_same(&cak(&octets, b"name")), "{at}");
            octets[(at + 1) % 16] ^= 0x55;
            assert!(!own.is_same(&cak(&octets, b"name")), "two equal changes, {at}");
        }
    }

    #[test]
    fn debug_shows_the_name_and_no_key() {
        let cak = Cak::new(&[0xa7; 32], b"name").unwrap();
        assert_eq!(std::format!("{cak:?}"), "Cak(Ckn(6e616d65), ..)");
        assert_eq!(std::format!("{:?}", Secret::new(&[0xa7; 16])), "Secret(..)");
    }

    #[test]
    fn errors_name_their_cause() {
        let texts = [CakError::KeyLength(24), CakError::NameLength(33)].map(|error| std::format!("{error}"));
        assert!(texts[0].contains("CAK") && texts[0].contains("24"), "{texts:?}");
        assert!(texts[1].contains("CKN") && texts[1].contains("33"), "{texts:?}");
    }

    #[test]
    fn wrong_key_and_name_lengths_are_refused() {
        assert_eq!(Cak::new(&[0; 24], b"n").unwrap_err(), CakError::KeyLength(24));
        assert_eq!(Cak::new(&[0; 16], b"").unwrap_err(), CakError::NameLength(0));
        assert_eq!(Cak::new(&[0; 16], &[0; 33]).unwrap_err(), CakError::NameLength(33));
    }

    #[test]
    fn salt_combines_identifier_and_number() {
        let key = KeyIdentifier { server: MemberIdentifier([0xff; 12]), number: 0x0102_0304 };
        assert_eq!(salt(key), [0xfc, 0xfb, 0xfe, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }
}
