//! Shows when flow tables pay off: nanoseconds from a packet's data to its tag, prepared as a whole
//! and joined from the halves of nonce and flow. `cargo run --release -p antedate-aead --example
//! flows`

use std::time::Instant;

use antedate_aead::{
    Aes128Gcm, Backend, Flow, FlowPool, Hole, Key, Nonce, NonceSequence, SealPool, Template,
};

struct Numbers(u64);

impl NonceSequence for Numbers {
    type Error = ();

    fn next(&mut self) -> Result<(u64, Nonce), ()> {
        self.0 += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.0.to_be_bytes());
        Ok((self.0, Nonce::assume_unique(nonce)))
    }
}

const ROUNDS: usize = 4_000;

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    println!(
        "{:10} {:>6} {:>8} {:>10} {:>8} {:>7}",
        "backend", "bytes", "blocks", "prepared", "joined", "ratio"
    );
    for backend in Backend::available() {
        for (len, varying) in [(46, 8), (46, 24), (128, 16), (256, 32), (512, 32), (1500, 32), (1500, 400)] {
            let key = || Key::<Aes128Gcm>::with_backend(&[7; 16], backend).expect("16 bytes");
            let (mut aad, payload) = ([1; 28], vec![2; len]);
            let holes = [Hole::Aad(16..20), Hole::Payload(10..10 + varying)];
            let template = Template::new(&aad, &payload, &holes).expect("a template");
            let flow = Flow::<Aes128Gcm, 32, 1536, 40>::new(&key(), &template).expect("room");
            let mut plain = SealPool::<_, _, 16, 1600>::new(key(), Numbers(0));
            let mut tables = FlowPool::<_, _, 16, 1600>::new(SealPool::new(key(), Numbers(0)));
            let reach = len.next_multiple_of(64);
            plain.set_reach(reach);
            tables.set_reach(reach);
            assert!(tables.add_length(len));
            let (mut payload, mut out) = (payload.clone(), vec![0; len]);
            let [mut ordinary, mut joined] = [Vec::new(), Vec::new()];
            for round in 0..ROUNDS {
                while plain.idle(64) > 0 {}
                while tables.idle(64) > 0 {}
                aad[19] = round as u8;
                payload[12] = round as u8;
                let start = Instant::now();
                let tag = plain.next().expect("numbers").seal(&aad, &payload, &mut out);
                ordinary.push(start.elapsed().as_nanos());
                let start = Instant::now();
                let (other, served) = tables.next().expect("numbers").seal(&flow, &aad, &payload, &mut out);
                joined.push(start.elapsed().as_nanos());
                assert!(served && tag == other);
            }
            let (ordinary, joined) = (median(ordinary), median(joined));
            let ratio = joined as f64 / ordinary as f64;
            let name = format!("{backend:?}");
            let blocks = flow.touched();
            println!("{name:10} {len:>6} {blocks:>8} {ordinary:>10} {joined:>8} {ratio:>7.2}");
        }
    }
}
