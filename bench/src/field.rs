//! Contenders for each cipher.

use crate::meter::Contender;
use crate::ours::{
    self, AllNew, AllNewOpen, Ends, EndsOpen, Holes, HolesOpen, Plain, Prepare, PrepareFront, PrepareTemplate,
};
use crate::packet::{self, Cipher, Sealed, agrees, sealed};
use crate::peers::{self, rustcrypto};
use antedate_aead::research::Morus1280;
use antedate_aead::{
    Aegis128L, Aes128Ccm8, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AsconAead128, ChaCha20Poly1305, Fronted, Sparse,
    Suite,
};

/// A contender's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Seals a packet with nothing known in advance.
    Seal,
    /// Opens a packet with nothing known in advance.
    Open,
    /// Seals with a prepared nonce; all bytes are new.
    SealAllNew,
    /// Opens with a prepared nonce.
    OpenAllNew,
    /// Seals for a template with this many touched blocks, or for a front before the last block.
    SealDynamic(usize),
    /// Opens for such a template or front.
    OpenDynamic(usize),
    /// Prepares a nonce.
    Prepare,
    /// Prepares for a template or a front.
    PrepareDynamic,
}

impl What {
    /// The name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Seal => "seal".into(),
            Self::Open => "open".into(),
            Self::SealAllNew => "seal, prepared, all new".into(),
            Self::OpenAllNew => "open, prepared, all new".into(),
            Self::SealDynamic(blocks) => format!("seal, prepared, {blocks} new"),
            Self::OpenDynamic(blocks) => format!("open, prepared, {blocks} new"),
            Self::Prepare => "prepare".into(),
            Self::PrepareDynamic => "prepare for 1 new".into(),
        }
    }

    /// The operation used when nothing is prepared.
    pub fn replaces(self) -> Self {
        match self {
            Self::Open | Self::OpenAllNew | Self::OpenDynamic(_) => Self::Open,
            _ => Self::Seal,
        }
    }

    /// Whether it runs before the deadline.
    pub fn prepares(self) -> bool {
        matches!(self, Self::Prepare | Self::PrepareDynamic)
    }
}

/// A contender with its name and operation.
pub struct Entrant {
    /// The implementation.
    pub who: &'static str,
    /// The operation.
    pub what: What,
    /// The contender.
    pub contender: Box<dyn Contender>,
}

/// A cipher, and its contenders at a payload length.
pub struct Discipline {
    /// The suite's name.
    pub cipher: &'static str,
    /// The contenders.
    pub entrants: fn(usize) -> Result<Vec<Entrant>, String>,
}

/// All ciphers.
pub const ALL: &[Discipline] = &[
    Discipline { cipher: Aes128Gcm::NAME, entrants: aes_128_gcm },
    Discipline { cipher: Aes256Gcm::NAME, entrants: aes_256_gcm },
    Discipline { cipher: ChaCha20Poly1305::NAME, entrants: chacha20_poly1305 },
    Discipline { cipher: Aes128Ccm8::NAME, entrants: aes_128_ccm_8 },
    Discipline { cipher: Aes128Ocb3::NAME, entrants: aes_128_ocb3 },
    Discipline { cipher: Aegis128L::NAME, entrants: aegis_128l },
    Discipline { cipher: AsconAead128::NAME, entrants: ascon_aead128 },
    Discipline { cipher: Morus1280::NAME, entrants: morus_1280 },
];

/// The entrants of one cipher at one length, each checked to give the same bytes as ours.
struct Field<const N: usize, const T: usize> {
    len: usize,
    packets: Vec<Sealed<T>>,
    entrants: Vec<Entrant>,
    wrong: Vec<&'static str>,
}

impl<const N: usize, const T: usize> Field<N, T> {
    fn new<S>(len: usize) -> Self
    where
        S: Suite<NonceBytes = [u8; N], TagBytes = [u8; T]>,
    {
        let packets = sealed(&mut Plain::<S>::new(), len);
        let mut field = Self { len, packets, entrants: Vec::new(), wrong: Vec::new() };
        field.peer(ours::WHO, Plain::<S>::new);
        field.add(What::SealAllNew, AllNew::<S>::new(len));
        field.add(What::OpenAllNew, AllNewOpen::<S, T>::new(field.packets.clone()));
        field.add(What::Prepare, Prepare::<S>::new(len));
        field
    }

    fn add(&mut self, what: What, contender: impl Contender + 'static) {
        self.entrants.push(Entrant { who: ours::WHO, what, contender: Box::new(contender) });
    }

    fn peer<C: Cipher<N, T> + 'static>(&mut self, who: &'static str, make: impl Fn() -> C) {
        if !self.packets.first().is_some_and(|expected| agrees(&mut make(), expected, self.len)) {
            self.wrong.push(who);
        }
        let [seal, open] = packet::contenders(make, self.len);
        self.entrants.push(Entrant { who, what: What::Seal, contender: seal });
        self.entrants.push(Entrant { who, what: What::Open, contender: open });
    }

    fn done(self) -> Result<Vec<Entrant>, String> {
        if self.wrong.is_empty() {
            Ok(self.entrants)
        } else {
            Err(format!("{} bytes: {} and ours differ", self.len, self.wrong.join(", ")))
        }
    }
}

impl<const N: usize, const T: usize> Field<N, T> {
    fn fronts<S: Fronted<NonceBytes = [u8; N], TagBytes = [u8; T]>>(&mut self) {
        let len = self.len;
        for blocks in [1, 4] {
            if blocks * 16 <= len {
                self.add(What::SealDynamic(blocks), Ends::<S>::new(len, blocks));
                self.add(What::OpenDynamic(blocks), EndsOpen::<S, T>::new(self.packets.clone(), blocks));
            }
        }
        self.add(What::PrepareDynamic, PrepareFront::<S>::new(len));
    }
}

impl<const N: usize> Field<N, 16> {
    fn templates<S: Sparse<NonceBytes = [u8; N], TagBytes = [u8; 16]>>(&mut self) {
        let len = self.len;
        for touched in [1, 4] {
            if touched * 16 <= len {
                self.add(What::SealDynamic(touched), Holes::<S>::new(len, touched));
                self.add(What::OpenDynamic(touched), HolesOpen::<S>::new(self.packets.clone(), touched));
            }
        }
        self.add(What::PrepareDynamic, PrepareTemplate::<S>::new(len));
    }
}

fn aes_128_gcm(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<Aes128Gcm>(len);
    field.templates::<Aes128Gcm>();
    field.peer("ring", peers::ring::aes_128_gcm);
    field.peer("aws-lc-rs", peers::aws_lc::aes_128_gcm);
    field.peer("aes-gcm", rustcrypto::aes_128_gcm);
    field.peer("openssl", peers::openssl::aes_128_gcm);
    if peers::graviola::runs_here() {
        field.peer("graviola", peers::graviola::aes_128_gcm);
    }
    #[cfg(ipsec_mb)]
    if peers::ipsec_mb::runs_here() {
        field.peer(IPSEC_MB, peers::ipsec_mb::aes_128_gcm);
    }
    field.done()
}

fn aes_256_gcm(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<Aes256Gcm>(len);
    field.templates::<Aes256Gcm>();
    field.peer("ring", peers::ring::aes_256_gcm);
    field.peer("aws-lc-rs", peers::aws_lc::aes_256_gcm);
    field.peer("aes-gcm", rustcrypto::aes_256_gcm);
    field.peer("openssl", peers::openssl::aes_256_gcm);
    if peers::graviola::runs_here() {
        field.peer("graviola", peers::graviola::aes_256_gcm);
    }
    #[cfg(ipsec_mb)]
    if peers::ipsec_mb::runs_here() {
        field.peer(IPSEC_MB, peers::ipsec_mb::aes_256_gcm);
    }
    field.done()
}

fn chacha20_poly1305(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<ChaCha20Poly1305>(len);
    field.templates::<ChaCha20Poly1305>();
    field.peer("ring", peers::ring::chacha20_poly1305);
    field.peer("aws-lc-rs", peers::aws_lc::chacha20_poly1305);
    field.peer("chacha20poly1305", rustcrypto::chacha20_poly1305);
    field.peer("openssl", peers::openssl::chacha20_poly1305);
    if peers::graviola::runs_here() {
        field.peer("graviola", peers::graviola::chacha20_poly1305);
    }
    #[cfg(ipsec_mb)]
    if peers::ipsec_mb::runs_here() {
        field.peer(IPSEC_MB, peers::ipsec_mb::chacha20_poly1305);
        field.peer(IPSEC_MB_JOB, peers::ipsec_mb::chacha20_poly1305_job);
    }
    field.done()
}

fn aes_128_ccm_8(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<Aes128Ccm8>(len);
    field.fronts::<Aes128Ccm8>();
    field.peer("ccm 0.6", rustcrypto::aes_128_ccm_8);
    field.peer("ccm 0.5", rustcrypto::aes_128_ccm_8_before);
    field.peer("openssl", peers::openssl::aes_128_ccm_8);
    #[cfg(ipsec_mb)]
    if peers::ipsec_mb::runs_here() {
        field.peer(IPSEC_MB_JOB, peers::ipsec_mb::aes_128_ccm_8_job);
    }
    field.done()
}

fn aes_128_ocb3(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<Aes128Ocb3>(len);
    field.templates::<Aes128Ocb3>();
    field.peer("ocb3", rustcrypto::aes_128_ocb3);
    field.peer("openssl", peers::openssl::aes_128_ocb);
    field.done()
}

fn aegis_128l(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<Aegis128L>(len);
    field.fronts::<Aegis128L>();
    field.peer("aegis", || peers::aegis::Peer);
    field.done()
}

fn ascon_aead128(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<AsconAead128>(len);
    field.fronts::<AsconAead128>();
    field.peer("ascon-aead", rustcrypto::ascon_aead128);
    field.done()
}

fn morus_1280(len: usize) -> Result<Vec<Entrant>, String> {
    let mut field = Field::new::<Morus1280>(len);
    field.fronts::<Morus1280>();
    field.peer("morus", || peers::morus::Peer);
    field.done()
}

/// Intel's library, called directly. Not a crate, so never the fastest crate.
pub const IPSEC_MB: &str = "ipsec-mb";
/// Intel's library, with a job that is flushed at once.
pub const IPSEC_MB_JOB: &str = "ipsec-mb job";
