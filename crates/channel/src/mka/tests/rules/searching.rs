//! The turns of the search for destinations.

use super::super::super::destination::Search;
use super::*;

#[test]
fn search_ends_when_each_peer_hears_us() {
    let mut bench = Bench::new();
    let is_on = |bench: &Bench| Search::is_on(&bench.me.peers, bench.now);
    assert!(is_on(&bench), "nobody is there");
    bench.meet(1);
    assert!(!is_on(&bench));
    let long_ago = bench.now - LIFE_TIME;
    for (reached, on) in [(None, true), (Some((0, long_ago)), true), (Some((0, long_ago + TINY)), false)] {
        bench.me.peers.0[0].reached = reached;
        assert_eq!(is_on(&bench), on, "{reached:?}");
    }
    bench.me.peers.0[0].proven = None;
    assert!(is_on(&bench), "it has heard us, and is not live");
}

#[test]
fn search_takes_turns_beside_members() {
    let mut bench = Bench::with(|config| config.destinations = AUTOMATIC.to_vec());
    bench.meet(1);
    bench.hear(&mkpdu(2, 1, &[], |repr| repr.destination = AUTOMATIC[3])).unwrap();
    let now = bench.now;
    let mut search = Search::default();
    let mut places = |reached: usize, later: Duration| {
        bench.me.peers.0[0].reached = Some((reached, now + later));
        search.next(AUTOMATIC.len(), &mut bench.me.peers, now + later).iter().collect::<Vec<_>>()
    };
    // A stranger is answered on its way. Then each destination has its turn, once in a hello time.
    assert_eq!(places(2, Duration::ZERO), [2, 3]);
    assert_eq!(places(2, Duration::ZERO), [0, 2]);
    assert_eq!(places(2, HELLO_TIME - TINY), [2]);
    assert_eq!(places(2, HELLO_TIME), [0, 2]);
    assert_eq!(places(2, 2 * HELLO_TIME), [1, 2]);
    // There are eight places at most.
    assert_eq!(places(7, 2 * HELLO_TIME), [7]);
    assert_eq!(places(8, 2 * HELLO_TIME), [2]);
}
