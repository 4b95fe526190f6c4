//! Silence of a server, measured by the rhythm of its own answers.
//!
//! A server that has lost a session drops its records without a word (RFC 6347 section 4.1.2.7),
//! so only the missing answers tell. An application that is answered within milliseconds shows the
//! loss in seconds; one whose server speaks every half minute is left in peace for minutes.

/// The fewest unanswered datagrams of a silence.
const MIN_UNANSWERED: u32 = 3;
/// The shortest silence, in milliseconds: a pause of server or network is no loss.
const SHORTEST_MS: u64 = 2000;
/// The usual wait for an answer, times this, is a silence, up to the configured time.
const FACTOR: u64 = 4;
/// The configured time bounds a silence, unless the server usually takes more than half of it.
const SLOW_FACTOR: u64 = 2;
/// The most doublings of the time after new sessions that brought no answer.
const MAX_DOUBLINGS: u32 = 7;
/// The longest silence by doubling, in milliseconds.
const LONGEST_MS: u64 = 300_000;

/// Datagrams and answers of one device.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// The time of the first unanswered datagram, and their number.
    unanswered: Option<(u64, u32)>,
    /// The longest wait for an answer of late, once there was one.
    usual: Option<u64>,
    /// Sessions since the last answer that were established because of silence.
    vain: u32,
}

impl Liveness {
    /// Notes a datagram to the server.
    pub(crate) fn sent(&mut self, now: u64) {
        let (since, count) = self.unanswered.unwrap_or((now, 0));
        self.unanswered = Some((since, count.saturating_add(1)));
    }

    /// Notes an authentic record of the server.
    pub(crate) fn heard(&mut self, now: u64) {
        if let Some((since, _)) = self.unanswered.take() {
            let usual = self.usual.unwrap_or(0);
            self.usual = Some(now.saturating_sub(since).max(usual - usual / 8));
        }
        self.vain = 0;
    }

    /// Notes a new session, and whether silence was its reason. The unanswered datagrams belonged to
    /// the earlier one.
    pub(crate) const fn renewed(&mut self, for_silence: bool) {
        self.unanswered = None;
        if for_silence {
            self.vain = self.vain.saturating_add(1);
        }
    }

    /// Whether a session was begun because of silence, and has brought no answer.
    pub(crate) const fn in_vain(&self) -> bool {
        self.vain > 0
    }

    /// Whether datagrams wait for an answer.
    pub(crate) const fn awaits(&self) -> bool {
        self.unanswered.is_some()
    }

    /// Milliseconds and number of unanswered datagrams, if the server is silent for too long.
    /// `most_ms` is the configured time; 0 means never. A server without any answer so far is not
    /// silent: its application may be one that only listens.
    pub(crate) fn silence(&self, now: u64, most_ms: u64) -> Option<(u64, u32)> {
        let (Some((since, count)), Some(usual)) = (self.unanswered, self.usual) else { return None };
        let most = most_ms.max(usual.saturating_mul(SLOW_FACTOR));
        let patience = usual.saturating_mul(FACTOR).clamp(SHORTEST_MS.min(most_ms), most);
        let doubled = patience << self.vain.min(MAX_DOUBLINGS);
        let patience = doubled.min(LONGEST_MS.max(patience));
        let silent = now.saturating_sub(since);
        (most_ms > 0 && count >= MIN_UNANSWERED && silent >= patience).then_some((silent, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 15_000;

    /// The time of the silence after an answer at 0, with a datagram each `period` ms.
    fn silence_after(live: &mut Liveness, start: u64, period: u64) -> u64 {
        (1..)
            .map(|i| start + i * period)
            .find(|now| {
                live.sent(*now);
                live.silence(*now, MOST).is_some()
            })
            .unwrap()
            - start
    }

    fn answered_within(ms: u64) -> Liveness {
        let mut live = Liveness::default();
        live.sent(0);
        live.heard(ms);
        live
    }

    #[test]
    fn quick_server_is_missed_in_seconds() {
        assert_eq!(silence_after(&mut answered_within(5), 0, 100), 100 + SHORTEST_MS);
        // Never before three datagrams.
        assert_eq!(silence_after(&mut answered_within(5), 0, 60_000), 180_000);
    }

    #[test]
    fn slow_heartbeat_is_respected() {
        assert_eq!(silence_after(&mut answered_within(1000), 0, 10), 10 + 4000);
        assert_eq!(silence_after(&mut answered_within(5000), 0, 10), 10 + MOST);
        assert_eq!(silence_after(&mut answered_within(30_000), 0, 10), 10 + 60_000);
        // The rhythm outlives a few quick answers.
        let mut live = answered_within(30_000);
        for at in 0..3 {
            live.sent(40_000 + at);
            live.heard(40_000 + at);
        }
        assert!(silence_after(&mut live, 50_000, 10) > 30_000);
    }

    #[test]
    fn server_that_never_answered_is_not_silent() {
        let mut live = Liveness::default();
        for now in 0..1000 {
            live.sent(now * 1000);
            assert_eq!(live.silence(now * 1000, MOST), None);
        }
        let mut off = answered_within(5);
        (0..100).for_each(|now| off.sent(now * 1000));
        assert_eq!(off.silence(1_000_000, 0), None);
    }

    #[test]
    fn vain_sessions_double_the_time() {
        let mut live = answered_within(5);
        let mut times = Vec::new();
        let mut now = 0;
        for _ in 0..10 {
            let silent = silence_after(&mut live, now, 100);
            times.push(silent - 100);
            now += silent;
            assert_eq!(live.in_vain(), times.len() > 1);
            live.renewed(true);
        }
        assert_eq!(times[..4], [2000, 4000, 8000, 16_000]);
        assert_eq!(times[9], 256_000);
        // An answer begins anew.
        live.sent(now);
        live.heard(now + 1);
        assert_eq!(silence_after(&mut live, now + 1, 100), 2100);
    }
}
