//! A sensor's DTLS 1.2 record with AES-128-CCM_8, sealed whole at the deadline or prepared with a
//! front (hiller2018 section VI).
//!
//! In idle time, the record's header, explicit nonce and additional data are written, since they
//! follow from epoch and sequence number, and the cipher does all work except for the bytes after
//! the front. At the deadline, the reading is sealed and appended to the header. The results are
//! named `dtls-SIZE-FRONT-PART`.

use crate::{LONGEST, Mote, Wrong, cost, nothing, payload, report, right};
use antedate_aead::{
    AesCcm, BlockCipher, Front, FrontSlot, Key, Nonce, NonceSequence, PreparedFront, Sealer,
};
use antedate_wire::dtls::{Aad, ConnectionId, ContentType, HEADER_LEN, Header, SEQUENCE_END, VERSION_1_2};
use core::hint::black_box;

type Ccm8<A> = AesCcm<A, 12, 8>;

const EXPLICIT: usize = 8;
const TAG: usize = 8;
/// Octets in front of the ciphertext.
const BEFORE: usize = HEADER_LEN + EXPLICIT;
/// Octets of the longest payload.
const CAP: usize = 112;
/// Epoch 1, and the first record's sequence number.
const FIRST: u64 = SEQUENCE_END | 5;

/// The first record, of "temperature=" and "21.5", as in `vectors/dtls.txt`: the host writes the
/// same.
const SENSOR: [u8; 45] = [
    23, 254, 253, 0, 1, 0, 0, 0, 0, 0, 5, 0, 32, 0, 1, 0, 0, 0, 0, 0, 5, 115, 205, 161, 251, 251, 113, 50, 0,
    25, 60, 78, 197, 150, 219, 103, 58, 25, 80, 59, 172, 18, 122, 172, 61,
];

/// Numbers of an epoch; the nonce is the implicit part and the number.
struct Numbers(u64);

fn nonce_of(number: u64) -> [u8; 12] {
    let mut nonce = *b"mote\0\0\0\0\0\0\0\0";
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

impl NonceSequence for Numbers {
    type Error = Wrong;

    fn next(&mut self) -> Result<(u64, Nonce), Wrong> {
        let number = self.0;
        if number >= 2 * SEQUENCE_END {
            return Err(Wrong::Fit);
        }
        self.0 = number + 1;
        Ok((number, Nonce::assume_unique(nonce_of(number))))
    }
}

/// Writes header and explicit nonce of a record with `len` octets of payload, and returns its
/// additional data.
#[inline(never)]
fn lay_out(number: u64, len: usize, record: &mut [u8]) -> Result<Aad, Wrong> {
    let header = Header { content_type: ContentType::ApplicationData, version: VERSION_1_2, number };
    let at = header.emit(&[], EXPLICIT + len + TAG, record).map_err(|_| Wrong::Fit)?;
    record.get_mut(at..at + EXPLICIT).ok_or(Wrong::Fit)?.copy_from_slice(&number.to_be_bytes());
    Ok(Aad::new(&header, &ConnectionId::EMPTY, len))
}

/// The whole record at the deadline.
#[inline(never)]
fn whole<A: BlockCipher>(
    key: &Key<Ccm8<A>>,
    number: u64,
    payload: &[u8],
    record: &mut [u8],
) -> Result<(), Wrong> {
    let aad = lay_out(number, payload.len(), record)?;
    let (text, tag) = record.split_at_mut_checked(BEFORE + payload.len()).ok_or(Wrong::Fit)?;
    let text = text.get_mut(BEFORE..).ok_or(Wrong::Fit)?;
    let sealed = key.seal(Nonce::assume_unique(nonce_of(number)), aad.as_slice(), payload, text);
    tag.get_mut(..TAG).ok_or(Wrong::Fit)?.copy_from_slice(sealed.as_bytes());
    Ok(())
}

/// The rest of the record when all is prepared.
#[inline(never)]
fn finish<A: BlockCipher>(
    prepared: PreparedFront<'_, Ccm8<A>, CAP, 1>,
    rest: &[u8],
    record: &mut [u8],
) -> Result<(), Wrong> {
    let sealed = prepared.seal(rest).map_err(|_| Wrong::Fit)?;
    let (text, tag) = (sealed.ciphertext(), sealed.tag());
    let end = BEFORE + text.len();
    record.get_mut(BEFORE..end).ok_or(Wrong::Fit)?.copy_from_slice(text);
    record.get_mut(end..end + TAG).ok_or(Wrong::Fit)?.copy_from_slice(tag.as_bytes());
    Ok(())
}

#[inline(never)]
fn record<M: Mote, A: BlockCipher>(payload: &[u8], front: usize) -> Result<(), Wrong> {
    let size = payload.len();
    let key = || Key::<Ccm8<A>>::new(&black_box([7; 16])).map_err(|_| Wrong::Fit);
    let mut unprepared = [0; BEFORE + CAP + TAG];
    let plain = key()?;
    let (cost, done) = cost!(M, whole(&plain, black_box(FIRST), payload, &mut unprepared));
    done?;
    report::<M>("dtls", &[size, front], "seal", cost);

    let mut prepared = [0; BEFORE + CAP + TAG];
    let (laying, aad) = cost!(M, lay_out(black_box(FIRST), size, &mut prepared));
    let aad = aad?;
    let (known, rest) = payload.split_at_checked(front).ok_or(Wrong::Fit)?;
    let lengths = [size];
    let known = Front::new(aad.as_slice(), known, &lengths).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key()?, Numbers(FIRST));
    let mut slot = FrontSlot::<Ccm8<A>, CAP, 1>::new();
    let mut handle = sealer.prepare_front(&known, &mut slot).map_err(|_| Wrong::Fit)?;
    let (preparing, _) = cost!(M, handle.step(u32::MAX));
    report::<M>("dtls", &[size, front], "prepare", laying + preparing);
    let (cost, done) = cost!(M, finish(handle, black_box(rest), &mut prepared));
    done?;
    report::<M>("dtls", &[size, front], "online", cost);
    right(prepared == unprepared)?;
    if size == 16 {
        right(prepared.starts_with(&SENSOR))?;
    }
    Ok(())
}

/// Checks the sensor's record against the host's, measures and prints.
pub fn measure_dtls<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    record::<M, A>(b"temperature=21.5", 12)?;
    let mut data = [0; LONGEST];
    payload(&mut data);
    let longer = data.get(..CAP).ok_or(Wrong::Fit)?;
    record::<M, A>(longer, 96)
}
