//! The heap and the stack after use, read through `/proc/self/mem`.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use antedate_hardening::memory::{self, Locked};
use antedate_hardening::{Heap, stack};

#[global_allocator]
static HEAP: Heap = Heap::new();

const LEN: usize = 64;

/// An octet of a secret. Never stored but by the code under test.
fn octet(of: u64, at: usize) -> u8 {
    let mixed =
        (of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 29) as u8 ^ (mixed >> 51) as u8
}

/// Places of writable memory with a secret, and whether they are in locked memory that dumps leave
/// out.
fn places(of: u64) -> Vec<bool> {
    let memory = File::open("/proc/self/mem").expect("own memory");
    let maps = fs::read_to_string("/proc/self/smaps").expect("own mappings");
    let mut found = Vec::new();
    let mut range = None;
    for line in maps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-')
            && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        {
            range = line.contains(" rw").then_some((from, to));
        } else if let (Some(flags), Some((from, to))) = (line.strip_prefix("VmFlags:"), range) {
            let mut piece = vec![0; (to - from) as usize];
            if memory.read_at(&mut piece, from).is_ok() {
                let hits = piece.windows(LEN).filter(|window| (0..LEN).all(|at| window[at] == octet(of, at)));
                let closed = [" lo", " dd"].iter().all(|flag| flags.contains(flag));
                found.extend(hits.map(|_| closed));
            }
        }
    }
    found
}

#[test]
fn freed_secret_leaves_memory() {
    let grown = || {
        // Moves to a longer block again and again.
        let mut secret = Vec::with_capacity(1);
        (0..LEN).for_each(|at| secret.push(octet(1, at)));
        secret.shrink_to_fit();
        secret
    };
    let secret = stack::wiped(grown);
    // Where the limit permits.
    let closed = memory::held() == Locked::Heap;
    assert_eq!(places(1), [closed], "one place, locked and left out of dumps");
    drop(black_box(secret));
    assert_eq!(places(1), [false; 0]);
}

#[test]
fn stack_is_wiped_after_a_computation() {
    // Not inlined, so that the secret lies below.
    let sum = |secret: &[u8; LEN]| black_box(secret).iter().map(|octet| u32::from(*octet)).sum::<u32>();
    let compute = || sum(&std::array::from_fn(|at| octet(2, at)));
    assert!(stack::wiped(compute) > 0);
    assert_eq!(places(2), [false; 0]);
}
