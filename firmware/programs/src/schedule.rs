//! The engine's cooperative runtime: a node's periodic work, its message, and preparation in
//! bounded steps in between.
//!
//! Nothing is preempted. Tasks that are due run in this order: the message, the work, a step of
//! preparation. Each takes its measured time, and the clock advances by that; with nothing to do it
//! jumps to the next release. The planner's analysis gives the worst case in advance.

use crate::{AAD, Counter, Mote, Wrong, answers, cost, nonce_of, nothing, report};
use antedate_aead::{AesCcm, BlockCipher, Front, FrontSlot, Key, Nonce, Sealer};
use core::hint::black_box;

/// A node; times in thousands of the mote's counting unit.
struct Node {
    /// period of the message
    period: u32,
    /// bytes of payload, and the number of bytes known in advance
    size: usize,
    front: usize,
    /// period of the work
    work_period: u32,
    /// the work, in AES blocks
    work: u32,
    /// every how many messages one comes early; 0: never
    early: u32,
    /// time from the previous message to an early one
    soon: u32,
}

const fn node(period: u32, size: usize, front: usize, work: [u32; 2], early: [u32; 2]) -> Node {
    let ([work_period, work], [early, soon]) = (work, early);
    Node { period, size, front, work_period, work, early, soon }
}

/// Nodes with time to spare, with little, with a long message, with too little time, with an early
/// message, with a message in the middle of its preparation, and with a message before any
/// preparation.
const NODES: [Node; 7] = [
    node(400, 112, 96, [40, 4], [0, 0]),
    node(160, 112, 96, [20, 5], [0, 0]),
    node(1000, 496, 480, [80, 20], [0, 0]),
    node(24, 112, 96, [20, 5], [0, 0]),
    node(400, 112, 96, [40, 4], [4, 200]),
    node(400, 112, 96, [40, 4], [4, 8]),
    node(400, 112, 96, [40, 4], [4, 0]),
];

/// Messages per run.
const MESSAGES: u32 = 16;
const CAP: usize = 512;

type Ccm8<A> = AesCcm<A, 12, 8>;

/// Runs all nodes and prints the results.
pub fn measure_schedule<M: Mote, A: BlockCipher>() -> Result<(), Wrong> {
    nothing::<M>();
    answers::aes_and_ccm::<A>()?;
    NODES.iter().enumerate().try_for_each(|(i, node)| run::<M, A>(i, node))
}

/// Results of a run.
#[derive(Default)]
struct Seen {
    /// the longest step, and the longest preparation without interleaved work
    step: u32,
    preparation: u32,
    /// the longest sealing, of a prepared and of an unprepared packet
    online: u32,
    fallback: u32,
    /// the longest time from release to end of a prepared message
    response: u32,
    /// the longest time from start to end of a preparation
    ready: u32,
    /// number of unprepared messages, and the longest time from release to end of one
    missed: u32,
    early_response: u32,
    /// number of messages whose packet differs from the unmodified cipher's under the expected
    /// number
    wrong: u32,
    /// the longest work, and its longest time from release to end
    work: u32,
    work_response: u32,
    idle: u32,
}

fn key<A: BlockCipher>() -> Result<Key<Ccm8<A>>, Wrong> {
    Key::new(&black_box([7; 16])).map_err(|_| Wrong::Fit)
}

#[inline(never)]
fn work<A: BlockCipher>(aes: &A, blocks: u32) {
    let mut block = [0; 16];
    for _ in 0..blocks {
        aes.encrypt(&mut block);
    }
    black_box(block);
}

#[inline(never)]
fn run<M: Mote, A: BlockCipher>(index: usize, node: &Node) -> Result<(), Wrong> {
    let Node { period, size, front, work_period, .. } = *node;
    let (period, work_period) = (1000 * period, 1000 * work_period);
    let data = [0x5a; CAP];
    let lengths = [size];
    let front_of = Front::new(&AAD, &data[..front], &lengths).map_err(|_| Wrong::Fit)?;
    let mut sealer = Sealer::new(key::<A>()?, Counter(0));
    let mut slot = FrontSlot::<Ccm8<A>, CAP, 1>::new();
    let aes = A::new(&[3; 16]);
    // The counter's own cost is not part of the node's time.
    let (own, ()) = cost!(M, ());
    let plain = key::<A>()?;
    let mut packet = data;
    let nonce = Nonce::assume_unique(nonce_of(1));
    let (unmodified, _) = cost!(M, plain.seal_in_place(nonce, &AAD, black_box(&mut packet[..size])));
    let mut seen = Seen::default();
    let (mut now, mut work_due) = (0u32, 0u32);
    let mut due = 0u32;
    for message in 0..MESSAGES {
        // The message's release; the first one follows a full period of preparation.
        let early = node.early > 0 && message % node.early == node.early - 1;
        due = if early { now + 1000 * node.soon } else { due + period };
        let begun = now;
        let (cost, prepared) = cost!(M, sealer.prepare_front(&front_of, &mut slot));
        let cost = cost.saturating_sub(own);
        let mut prepared = prepared.map_err(|_| Wrong::Fit)?;
        now += cost;
        seen.step = seen.step.max(cost);
        let mut spent = cost;
        let mut ready = false;
        while now < due {
            if now >= work_due {
                let (cost, ()) = cost!(M, work(&aes, black_box(node.work)));
                let cost = cost.saturating_sub(own);
                now += cost;
                seen.work = seen.work.max(cost);
                seen.work_response = seen.work_response.max(now - work_due);
                work_due += work_period;
            } else if !ready {
                let (cost, _) = cost!(M, prepared.step(1));
                let cost = cost.saturating_sub(own);
                now += cost;
                spent += cost;
                seen.step = seen.step.max(cost);
                ready = prepared.is_ready();
                if ready {
                    seen.ready = seen.ready.max(now - begun);
                    seen.preparation = seen.preparation.max(spent);
                }
            } else {
                let next = work_due.min(due);
                seen.idle += next - now;
                now = next;
            }
        }
        let (cost, sealed) = cost!(M, prepared.seal(black_box(&data[front..size])));
        let cost = cost.saturating_sub(own);
        now += cost;
        let sealed = sealed.map_err(|_| Wrong::Fit)?;
        // Prepared or not, the packet is the unmodified cipher's under the expected number.
        let number = u64::from(message) + 1;
        packet = data;
        let tag = plain.seal_in_place(Nonce::assume_unique(nonce_of(number)), &AAD, &mut packet[..size]);
        let same = sealed.tag() == tag && sealed.ciphertext() == &packet[..size];
        seen.wrong += u32::from(sealed.number() != number || !same);
        let (wipe, ()) = cost!(M, drop(sealed));
        let wipe = wipe.saturating_sub(own);
        if ready {
            seen.online = seen.online.max(cost);
            seen.response = seen.response.max(now - due);
        } else {
            seen.missed += 1;
            seen.fallback = seen.fallback.max(cost);
            seen.early_response = seen.early_response.max(now - due);
        }
        now += wipe;
    }
    for (what, number) in [
        ("step", seen.step),
        ("preparation", seen.preparation),
        ("online", seen.online),
        ("fallback", seen.fallback),
        ("response", seen.response),
        ("ready", seen.ready),
        ("ram-missed", seen.missed),
        ("early-response", seen.early_response),
        ("ram-wrong", seen.wrong),
        ("unmodified", unmodified.saturating_sub(own)),
        ("work", seen.work),
        ("work-response", seen.work_response),
        ("ram-idle", seen.idle),
        ("ram-period", period),
        ("ram-work-period", work_period),
        ("ram-early", node.early),
        ("ram-horizon", due),
    ] {
        // Readers subtract the counter's own cost from each measured number.
        let counted = if what.starts_with("ram-") { 0 } else { own };
        report::<M>("schedule", &[index], what, number + counted);
    }
    Ok(())
}
