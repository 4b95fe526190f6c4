//! The groups of ephemeral keys (RFC 8422): X25519, and P-256 for peers that have nothing else.

use alloc::vec::Vec;

use p256::elliptic_curve::sec1::ToSec1Point;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::misfit::Misfit;
use crate::secret::Boxed;

/// A group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    X25519,
    P256,
}

/// The tag of an uncompressed point (SEC 1 section 2.3.3), the only form of RFC 8422.
const UNCOMPRESSED: u8 = 4;
/// Octets of such a point on P-256.
const POINT_LEN: usize = 65;
/// One random secret in 2^32 is no scalar of P-256.
const NO_SCALAR: Misfit = "the ephemeral secret is not one of P-256; the next handshake has another";

impl Group {
    /// All groups, the favourite first.
    pub(super) const ALL: [Self; 2] = [Self::X25519, Self::P256];

    pub(super) const fn number(self) -> u16 {
        match self {
            Self::X25519 => 29,
            Self::P256 => 23,
        }
    }

    pub(super) fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.number() == number)
    }

    /// Our favourite of the groups that a peer offers.
    pub(super) fn choose(offered: &[u16]) -> Option<Self> {
        Self::ALL.into_iter().find(|group| offered.contains(&group.number()))
    }

    /// The public key of a secret.
    pub(super) fn public(self, secret: &Boxed<32>) -> Result<Vec<u8>, Misfit> {
        match self {
            Self::X25519 => Ok(PublicKey::from(&StaticSecret::from(**secret)).to_bytes().to_vec()),
            Self::P256 => {
                let secret = p256::SecretKey::from_slice(&secret[..]).map_err(|_| NO_SCALAR)?;
                Ok(secret.public_key().to_sec1_point(false).as_bytes().to_vec())
            }
        }
    }

    /// Whether these octets are a public key.
    pub(super) fn has(self, public: &[u8]) -> bool {
        match self {
            Self::X25519 => public.len() == 32,
            Self::P256 => point(public).is_some(),
        }
    }

    /// The shared secret of our secret and the peer's public key.
    pub(super) fn agree(self, secret: &Boxed<32>, public: &[u8]) -> Result<Zeroizing<[u8; 32]>, Misfit> {
        let no_key = "the ephemeral key is no key of its group";
        match self {
            Self::X25519 => {
                let public: [u8; 32] = public.try_into().map_err(|_| no_key)?;
                let shared = StaticSecret::from(**secret).diffie_hellman(&PublicKey::from(public));
                if !shared.was_contributory() {
                    return Err("the ephemeral key is of low order");
                }
                Ok(Zeroizing::new(shared.to_bytes()))
            }
            Self::P256 => {
                let public = point(public).ok_or(no_key)?;
                let secret = p256::SecretKey::from_slice(&secret[..]).map_err(|_| NO_SCALAR)?;
                let shared = secret.diffie_hellman(&public);
                let mut out = Zeroizing::new([0; 32]);
                out.copy_from_slice(shared.raw_secret_bytes());
                Ok(out)
            }
        }
    }
}

/// A point on P-256 in the form of RFC 8422; that of infinity has another form.
fn point(octets: &[u8]) -> Option<p256::PublicKey> {
    let fits = octets.len() == POINT_LEN && octets.first() == Some(&UNCOMPRESSED);
    if fits { p256::PublicKey::from_sec1_bytes(octets).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    fn boxed(octets: &[u8]) -> Boxed<32> {
        let mut secret = Boxed::default();
        secret.copy_from_slice(octets);
        secret
    }

    /// RFC 5903 section 8.1.
    #[test]
    fn p256_gives_the_known_answer() {
        let ours = boxed(&octets("C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433"));
        let theirs = boxed(&octets("C6EF9C5D78AE012A011164ACB397CE2088685D8F06BF9BE0B283AB46476BEE53"));
        let public = Group::P256.public(&ours).unwrap();
        let expected = octets(
            "04DAD0B65394221CF9B051E1FECA5787D098DFE637FC90B9EF945D0C3772581180\
             5271A0461CDB8252D61F1C456FA3E59AB1F45B33ACCF5F58389E0577B8990BB3",
        );
        assert_eq!(public, expected);
        let shared = octets("D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03812464D04B9442DE");
        assert_eq!(Group::P256.agree(&theirs, &public).unwrap()[..], shared);
        let other = Group::P256.public(&theirs).unwrap();
        assert_eq!(Group::P256.agree(&ours, &other).unwrap()[..], shared);
    }

    #[test]
    fn impossible_keys_are_refused() {
        let secret = boxed(&[5; 32]);
        for group in Group::ALL {
            let public = group.public(&secret).unwrap();
            assert!(group.has(&public));
            assert!(group.agree(&secret, &public).is_ok());
            for wrong in [&public[1..], &[&public[..], &[0]].concat(), &[]] {
                assert!(!group.has(wrong));
                assert!(group.agree(&secret, wrong).is_err());
            }
        }
        let good = Group::P256.public(&secret).unwrap();
        let mut beside = good.clone();
        beside[64] ^= 1;
        let compressed = [&[2 + (good[64] & 1)], &good[1..33]].concat();
        for wrong in [beside, compressed, [0].to_vec(), [&[4][..], &[0; 64]].concat()] {
            assert!(!Group::P256.has(&wrong));
        }
        assert!(Group::P256.public(&boxed(&[0; 32])).is_err());
        assert!(Group::P256.public(&boxed(&[0xff; 32])).is_err());
        assert!(Group::X25519.agree(&secret, &[0; 32]).is_err(), "low order");
    }

    #[test]
    fn favourite_of_the_offer_is_chosen() {
        assert_eq!(Group::choose(&[24, 23, 29]), Some(Group::X25519));
        assert_eq!(Group::choose(&[24, 23]), Some(Group::P256));
        assert_eq!(Group::choose(&[24]), None);
        assert_eq!(Group::from_number(23), Some(Group::P256));
    }
}
