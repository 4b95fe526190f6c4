//! Cipher suites: prepared packets, the plain cipher's packets and an independent library's are
//! equal on every backend, and a changed packet is refused.

use antedate_aead::{
    Aegis128L, Aes128Ccm8, Aes128Gcm, Aes128Ocb3, AsconAead128, Backend, ChaCha20Poly1305, Front, FrontSlot,
    Fronted, Hole, Key, Nonce, NonceSequence, Opener, Sealer, Slot, Sparse, Suite, Template, TemplateSlot,
    research::Morus1280,
    unauthenticated::{Aes128Cbc, Iv, ciphertext_len},
};

const CAP: usize = 512;

/// Source of a test case.
struct Case<'a> {
    key: Vec<u8>,
    nonce: Vec<u8>,
    /// Units of preparation.
    steps: u32,
    /// Two places in the packet, with a length each.
    places: [[u8; 2]; 2],
    aad: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Case<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let ([key, nonce, steps, aad, a, a_len, b, b_len], rest) = data.split_first_chunk::<8>()?;
        let (aad, payload) = rest.split_at(rest.len().min(usize::from(*aad)));
        Some(Self {
            key: (0..32).map(|i: u8| key.wrapping_mul(i | 1)).collect(),
            nonce: (0..16).map(|i: u8| nonce.wrapping_add(i)).collect(),
            steps: u32::from(*steps),
            places: [[*a, *a_len], [*b, *b_len]],
            aad,
            payload: &payload[..payload.len().min(CAP)],
        })
    }

    fn nonce<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|i| self.nonce[i])
    }

    fn key<S: Suite>(&self, backend: Backend) -> Key<S> {
        Key::with_backend(&self.key[..S::KEY_LEN], backend).expect("the suite's length")
    }

    /// Holes at the places.
    fn holes(&self) -> Vec<Hole> {
        let mut holes: Vec<Hole> = Vec::new();
        for [at, len] in self.places {
            let at = usize::from(at);
            let (part, hole): (_, fn(_) -> _) =
                if at % 3 == 0 { (self.aad.len(), Hole::Aad) } else { (self.payload.len(), Hole::Payload) };
            if at < part {
                holes.push(hole(at..(at + 1 + usize::from(len) % 40).min(part)));
            }
            if Template::new(self.aad, self.payload, &holes).is_err() {
                holes.pop();
            }
        }
        holes
    }
}

/// A sequence with one nonce.
struct Once<B>(Option<B>);

impl<B> NonceSequence<B> for Once<B> {
    type Error = &'static str;

    fn next(&mut self) -> Result<(u64, Nonce<B>), Self::Error> {
        Ok((0, Nonce::assume_unique(self.0.take().ok_or("it is spent")?)))
    }
}

/// A packet: ciphertext and tag.
type Packet<const T: usize> = (Vec<u8>, [u8; T]);

fn one_shot<S, const N: usize, const T: usize>(case: &Case<'_>, backend: Backend) -> Packet<T>
where
    S: Suite<NonceBytes = [u8; N], TagBytes = [u8; T]>,
{
    let mut out = case.payload.to_vec();
    let tag = case.key::<S>(backend).seal_in_place(Nonce::assume_unique(case.nonce()), case.aad, &mut out);
    (out, *tag.as_bytes())
}

/// The ordinary and the prepared path, and a changed packet.
fn plain<S, const N: usize, const T: usize>(case: &Case<'_>, oracle: Option<&Packet<T>>) -> Packet<T>
where
    S: Suite<NonceBytes = [u8; N], TagBytes = [u8; T]>,
{
    let packet = one_shot::<S, N, T>(case, Backend::Portable);
    if let Some(oracle) = oracle {
        assert_eq!(&packet, oracle, "{}: the library disagrees", S::NAME);
    }
    for backend in Backend::available() {
        assert_eq!(one_shot::<S, N, T>(case, backend), packet, "{} on {backend:?}", S::NAME);
        let mut slot = Slot::<S, CAP>::new();
        let mut sealer = Sealer::<S, _>::new(case.key(backend), Once(Some(case.nonce::<N>())));
        let mut prepared = sealer.prepare(&mut slot).expect("a nonce");
        prepared.step(case.steps);
        let mut out = vec![0; case.payload.len()];
        let tag = prepared.seal(case.aad, case.payload, &mut out);
        assert_eq!((&out, tag.as_bytes()), (&packet.0, &packet.1), "{} on {backend:?}", S::NAME);

        let opener = Opener::<S, _>::new(case.key(backend), |_| case.nonce::<N>());
        let mut expected = opener.expect(0, &mut slot);
        expected.step(case.steps);
        let mut forged = packet.1;
        forged[case.payload.len() % T] ^= 1 | case.places[0][0];
        let expected = expected.open(case.aad, &packet.0, &mut out, &forged).expect_err("a forgery").0;
        assert!(out.iter().all(|&byte| byte == 0));
        expected.open(case.aad, &packet.0, &mut out, &packet.1).expect("the genuine packet");
        assert_eq!(out, case.payload);
    }
    packet
}

fn sparse<S, const N: usize, const T: usize>(case: &Case<'_>, oracle: Option<&Packet<T>>)
where
    S: Sparse<NonceBytes = [u8; N], TagBytes = [u8; T]>,
{
    let packet = plain::<S, N, T>(case, oracle);
    let holes = case.holes();
    let values: Vec<&[u8]> = holes
        .iter()
        .map(|hole| match hole {
            Hole::Aad(range) => &case.aad[range.clone()],
            Hole::Payload(range) => &case.payload[range.clone()],
        })
        .collect();
    let (mut aad, mut payload) = (case.aad.to_vec(), case.payload.to_vec());
    for hole in &holes {
        match hole {
            Hole::Aad(range) => aad[range.clone()].fill(case.places[1][1]),
            Hole::Payload(range) => payload[range.clone()].fill(case.places[1][1]),
        }
    }
    let template = Template::new(&aad, &payload, &holes).expect("holes that fit");
    for backend in Backend::available() {
        let mut slot = TemplateSlot::<S, CAP, 8>::new();
        let mut sealer = Sealer::<S, _>::new(case.key(backend), Once(Some(case.nonce::<N>())));
        let mut prepared = sealer.prepare_template(&template, &mut slot).expect("it fits");
        prepared.step(case.steps);
        let sealed = prepared.seal(&values).expect("values that fit");
        assert_eq!(
            (sealed.ciphertext(), sealed.tag().as_bytes()),
            (&packet.0[..], &packet.1),
            "{} on {backend:?}",
            S::NAME
        );
        drop(sealed);
        let opener = Opener::<S, _>::new(case.key(backend), |_| case.nonce::<N>());
        let mut expected = opener.expect_template(0, &template, &mut slot).expect("it fits");
        expected.step(case.steps);
        let mut out = vec![1; case.payload.len()];
        let mut changed = packet.0.clone();
        let mut forged = packet.1;
        match changed.get_mut(usize::from(case.places[0][0])) {
            Some(byte) => *byte ^= 0x20,
            None => forged[0] ^= 0x20,
        }
        let expected = expected.open(case.aad, &changed, &mut out, &forged).expect_err("a forgery").0;
        assert!(out.iter().all(|&byte| byte == 0));
        expected.open(case.aad, &packet.0, &mut out, &packet.1).expect("the genuine packet");
        assert_eq!(out, case.payload);
    }
}

fn fronted<S, const N: usize, const T: usize>(case: &Case<'_>, oracle: Option<&Packet<T>>)
where
    S: Fronted<NonceBytes = [u8; N], TagBytes = [u8; T]>,
{
    let packet = plain::<S, N, T>(case, oracle);
    let len = case.payload.len();
    if len == 0 {
        return;
    }
    let (fixed, rest) = case.payload.split_at(usize::from(case.places[0][0]) % len);
    // Includes lengths that the packet does not have.
    let lengths: Vec<usize> = [len, fixed.len() + 1 + usize::from(case.places[1][0])]
        .into_iter()
        .filter(|&len| len <= CAP)
        .collect();
    let lengths = if lengths.first() == lengths.get(1) { &lengths[..1] } else { &lengths[..] };
    let front = Front::new(case.aad, fixed, lengths).expect("a front");
    for backend in Backend::available() {
        let mut slot = FrontSlot::<S, CAP, 2>::new();
        let mut sealer = Sealer::<S, _>::new(case.key(backend), Once(Some(case.nonce::<N>())));
        let mut prepared = sealer.prepare_front(&front, &mut slot).expect("it fits");
        prepared.step(case.steps);
        let sealed = prepared.seal(rest).expect("it fits");
        assert_eq!(
            (sealed.ciphertext(), sealed.tag().as_bytes()),
            (&packet.0[..], &packet.1),
            "{} on {backend:?}",
            S::NAME
        );
        drop(sealed);
        let opener = Opener::<S, _>::new(case.key(backend), |_| case.nonce::<N>());
        let mut expected = opener.expect_front(0, &front, &mut slot).expect("it fits");
        expected.step(case.steps);
        let mut out = vec![1; len];
        let mut changed = packet.0.clone();
        changed[usize::from(case.places[0][1]) % len] ^= 0x20;
        let expected = expected.open(case.aad, &changed, &mut out, &packet.1).expect_err("a forgery").0;
        assert!(out.iter().all(|&byte| byte == 0));
        expected.open(case.aad, &packet.0, &mut out, &packet.1).expect("the genuine packet");
        assert_eq!(out, case.payload);
    }
}

/// The case's packet from a RustCrypto crate.
macro_rules! rustcrypto {
    ($traits:path, $cipher:ty, $case:expr, $key:literal, $nonce:literal) => {{
        use $traits::{AeadInOut, KeyInit};
        let case: &Case<'_> = $case;
        let cipher = <$cipher>::new_from_slice(&case.key[..$key]).expect("a key");
        let mut out = case.payload.to_vec();
        let nonce: [u8; $nonce] = case.nonce();
        let tag = cipher
            .encrypt_inout_detached(&nonce.into(), case.aad, (&mut out[..]).into())
            .expect("a short packet");
        (out, tag.into())
    }};
}

/// AES-128-GCM.
pub fn aead_gcm(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let oracle = rustcrypto!(aes_gcm::aead, aes_gcm::Aes128Gcm, &case, 16, 12);
    sparse::<Aes128Gcm, 12, 16>(&case, Some(&oracle));
}

/// ChaCha20-Poly1305.
pub fn aead_chacha20poly1305(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let oracle = rustcrypto!(chacha20poly1305::aead, chacha20poly1305::ChaCha20Poly1305, &case, 32, 12);
    sparse::<ChaCha20Poly1305, 12, 16>(&case, Some(&oracle));
}

/// AES-128-OCB3.
pub fn aead_ocb3(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let oracle = rustcrypto!(ocb3::aead, ocb3::Ocb3<aes::Aes128>, &case, 16, 12);
    sparse::<Aes128Ocb3, 12, 16>(&case, Some(&oracle));
}

/// AES-128-CCM_8.
pub fn aead_ccm(data: &[u8]) {
    use ccm::aead::consts::{U8, U12};
    let Some(case) = Case::read(data) else { return };
    let oracle = rustcrypto!(ccm::aead, ccm::Ccm<aes::Aes128, U8, U12>, &case, 16, 12);
    fronted::<Aes128Ccm8, 12, 8>(&case, Some(&oracle));
}

/// AEGIS-128L.
pub fn aead_aegis(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let key: &[u8; 16] = case.key.first_chunk().expect("a key");
    let oracle = aegis::aegis128l::Aegis128L::<16>::new(key, &case.nonce()).encrypt(case.payload, case.aad);
    fronted::<Aegis128L, 16, 16>(&case, Some(&oracle));
}

/// Ascon-AEAD128.
pub fn aead_ascon(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let oracle = rustcrypto!(ascon_aead::aead, ascon_aead::AsconAead128, &case, 16, 16);
    fronted::<AsconAead128, 16, 16>(&case, Some(&oracle));
}

/// MORUS-1280-128, without an independent library: compares backends and paths with each other.
pub fn aead_morus(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    fronted::<Morus1280, 16, 16>(&case, None);
}

/// AES-128-CBC with padding. The input is also decrypted: this must not panic, and must agree with
/// the library.
pub fn cbc_pkcs7(data: &[u8]) {
    use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7};
    let Some(case) = Case::read(data) else { return };
    let key: &[u8; 16] = case.key.first_chunk().expect("a key");
    let iv: [u8; 16] = case.nonce();
    let oracle = cbc::Encryptor::<aes::Aes128>::new(key.into(), &iv.into());
    let oracle = oracle.encrypt_padded_vec::<Pkcs7>(case.payload);
    let foreign = cbc::Decryptor::<aes::Aes128>::new(key.into(), &iv.into());
    let foreign = foreign.decrypt_padded_vec::<Pkcs7>(case.payload).ok();
    for backend in Backend::available() {
        let cipher = Aes128Cbc::with_backend(key, backend);
        let mut out = vec![0; ciphertext_len(case.payload.len())];
        assert_eq!(cipher.encrypt(Iv::assume_unpredictable(iv), case.payload, &mut out), Ok(oracle.len()));
        assert_eq!(out, oracle);
        let mut back = vec![1; out.len()];
        let plain = cipher.decrypt(&iv, &out, &mut back).expect("its own ciphertext");
        assert_eq!(plain.assume_authentic(), case.payload);
        let mut back = vec![1; case.payload.len()];
        let plain = cipher.decrypt(&iv, case.payload, &mut back).ok();
        assert_eq!(plain.map(|plain| plain.assume_authentic().to_vec()), foreign);
    }
}
