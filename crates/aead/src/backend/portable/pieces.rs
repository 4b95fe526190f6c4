//! Byte strings cut into blocks.

/// XORs the beginning of `with` into `data`.
pub(crate) fn xor(data: &mut [u8], with: &[u8]) {
    for (byte, other) in data.iter_mut().zip(with) {
        *byte ^= other;
    }
}

/// Reads the pieces as one string, cuts it into blocks, pads the last with zeros, and returns the
/// string's length.
pub(crate) fn padded(pieces: &[&[u8]], mut take: impl FnMut(&[u8; 16])) -> usize {
    let mut block = [0; 16];
    let mut total = 0;
    for piece in pieces {
        let mut rest = *piece;
        let held = total % 16;
        total += rest.len();
        if held > 0 {
            let (now, later) = rest.split_at(rest.len().min(16 - held));
            block[held..][..now.len()].copy_from_slice(now);
            if held + now.len() < 16 {
                continue;
            }
            take(&block);
            rest = later;
        }
        let (blocks, tail) = rest.as_chunks::<16>();
        blocks.iter().for_each(&mut take);
        block = [0; 16];
        block[..tail.len()].copy_from_slice(tail);
    }
    if total % 16 > 0 {
        take(&block);
    }
    total
}

/// Reads the pieces as one string and passes it on in parts, all but the last a whole number of
/// `N`-byte blocks. Returns the string's length.
pub(crate) fn staged<const N: usize>(pieces: &[&[u8]], mut take: impl FnMut(&[u8])) -> usize {
    if let [whole] = pieces {
        take(whole);
        return whole.len();
    }
    let mut block = [0; N];
    let mut total = 0;
    for piece in pieces {
        let mut rest = *piece;
        let held = total % N;
        total += rest.len();
        if held > 0 {
            let (now, later) = rest.split_at(rest.len().min(N - held));
            block[held..][..now.len()].copy_from_slice(now);
            if held + now.len() < N {
                continue;
            }
            take(&block);
            rest = later;
        }
        let (whole, tail) = rest.split_at(rest.len() - rest.len() % N);
        take(whole);
        block[..tail.len()].copy_from_slice(tail);
    }
    take(&block[..total % N]);
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_like_one_string() {
        let whole: [u8; 70] = core::array::from_fn(|i| i as u8 + 1);
        for a in 0..=70 {
            for b in a..=70 {
                let mut seen = [0; 80];
                let mut at = 0;
                let total = padded(&[&whole[..a], &whole[a..b], &[], &whole[b..]], |block| {
                    seen[at..at + 16].copy_from_slice(block);
                    at += 16;
                });
                assert_eq!((total, at), (70, 80));
                assert_eq!((&seen[..70], &seen[70..]), (&whole[..], &[0; 10][..]));
            }
        }
    }

    #[test]
    fn all_parts_but_last_are_whole_blocks() {
        let whole: [u8; 70] = core::array::from_fn(|i| i as u8 + 1);
        for a in 0..=70 {
            for b in a..=70 {
                let mut seen = [0; 70];
                let (mut at, mut ended) = (0, false);
                let total = staged::<32>(&[&whole[..a], &whole[a..b], &[], &whole[b..]], |part| {
                    assert!(!ended || part.is_empty());
                    ended = part.len() % 32 != 0;
                    seen[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                });
                assert_eq!((total, at, seen), (70, 70, whole));
            }
        }
    }
}
