//! The time without a broker: pauses between attempts, what the log says, and when to give up.

use std::time::{Duration, Instant};

use antedate_mqtt_client::ConnectionLostError;

use crate::output;

/// The first pause, which doubles with each attempt, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// Without `--keep-trying` the end of an outage is awaited so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// A shorter connection probably ended for a lasting reason; this many in a row are an error without
/// `--keep-trying`.
const SHORT: Duration = Duration::from_secs(5);
const SHORT_MAX: u32 = 5;
/// Pause between two lines of the log on the same outage or on connections that end again and again.
const SILENCE: Duration = Duration::from_secs(60);

/// The reason to give up.
#[derive(Debug, thiserror::Error)]
pub(super) enum GivenUp {
    #[error("{}{why} (remedy: {})", lacking(broker, why), why.remedy())]
    Absent { broker: String, why: ConnectionLostError },
    #[error(
        "the connection ends again and again: {why} (remedy: read the broker's log: an access list, a message that is too long, or a second client of the same name)"
    )]
    Short { why: ConnectionLostError },
    #[error("no connection to {broker} for {seconds} s: {why} (remedy: {})", why.remedy())]
    Long { broker: String, seconds: u64, why: ConnectionLostError },
}

/// The begin of the reason, if there is no connection: a broker that refuses a publish has one.
fn lacking(broker: &str, why: &ConnectionLostError) -> String {
    if matches!(why, ConnectionLostError::TooLong) {
        String::new()
    } else {
        format!("no connection to {broker}: ")
    }
}

/// The losses of a connection.
pub(super) struct Outage {
    keep_trying: bool,
    /// Since when there is no connection, after the first attempt.
    since: Option<Instant>,
    /// Attempts and short connections in a row.
    attempts: u32,
    short: u32,
    /// The last line, if its end is to be reported, and when it was.
    said: bool,
    last: Option<Instant>,
}

impl Outage {
    pub(super) const fn new(keep_trying: bool) -> Self {
        Self { keep_trying, since: None, attempts: 0, short: 0, said: false, last: None }
    }

    /// Whether there is no connection now, after an attempt.
    pub(super) const fn lasts(&self) -> bool {
        self.since.is_some()
    }

    /// This client ended the connection itself.
    pub(super) fn intended(&mut self) {
        self.since = Some(Instant::now());
    }

    /// The broker is there.
    pub(super) fn over(&mut self, broker: &str) {
        if let Some(since) = self.since.take()
            && std::mem::take(&mut self.said)
        {
            let seconds = since.elapsed().as_secs();
            output::tell(format_args!("antedate: connected to {broker} again after {seconds} s"));
        }
    }

    /// A connection that lasted so long was lost, or an attempt failed. Returns the pause before the
    /// next attempt, or the reason to give up. Who keeps trying also waits for a broker that refuses
    /// this client or has a certificate that does not hold: both are mended at the broker.
    pub(super) fn lost(
        &mut self,
        broker: &str,
        why: ConnectionLostError,
        lasted: Option<Duration>,
    ) -> Result<Duration, GivenUp> {
        let broker = broker.to_owned();
        let first = lasted.is_none() && self.since.is_none();
        let final_one = match &why {
            ConnectionLostError::TooLong => true,
            ConnectionLostError::Refused { .. } | ConnectionLostError::Tls { .. } => !self.keep_trying,
            ConnectionLostError::Broken { .. } => first && !self.keep_trying,
        };
        if final_one {
            return Err(GivenUp::Absent { broker, why });
        }
        if let Some(lasted) = lasted {
            let short = lasted < SHORT;
            (self.short, self.attempts) = if short { (self.short + 1, self.attempts) } else { (0, 0) };
            if self.short >= SHORT_MAX && !self.keep_trying {
                return Err(GivenUp::Short { why });
            }
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE && !self.keep_trying {
            return Err(GivenUp::Long { broker, seconds: PATIENCE.as_secs(), why });
        }
        if self.last.is_none_or(|last| last.elapsed() > SILENCE) && !self.said {
            let what = if first { "no connection to" } else { "the connection is lost to" };
            let remedy = why.remedy();
            output::tell(format_args!("antedate: {what} {broker} ({why}), trying again (remedy: {remedy})"));
            (self.said, self.last) = (true, Some(Instant::now()));
        }
        let pause = PAUSE.saturating_mul(1 << self.attempts.min(16)).min(LONGEST);
        self.attempts += 1;
        // Clients of one broker do not all return at once.
        let mut random = [0];
        let _ = getrandom::fill(&mut random);
        Ok(pause.mul_f64(1.0 + f64::from(random[0]) / 1024.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> ConnectionLostError {
        ConnectionLostError::of_io(&std::io::ErrorKind::ConnectionRefused.into())
    }

    #[test]
    fn absent_broker_is_an_error_at_once() {
        let mut outage = Outage::new(false);
        let why = outage.lost("b", broken(), None).expect_err("no broker").to_string();
        assert!(why.starts_with("no connection to b: connection refused (remedy: look"), "{why}");
        // After a connection it is waited for.
        assert!(outage.lost("b", broken(), Some(Duration::from_secs(9))).is_ok());
        assert!(outage.lost("b", broken(), None).is_ok());
    }

    #[test]
    fn service_waits_for_a_mended_broker() {
        let refused = || ConnectionLostError::Refused { why: "not authorized".into(), remedy: "" };
        assert!(Outage::new(false).lost("b", refused(), None).is_err());
        let mut service = Outage::new(true);
        assert!(service.lost("b", refused(), None).is_ok());
        // The same publish would be refused again for ever.
        let why = service.lost("b", ConnectionLostError::TooLong, None).expect_err("for ever").to_string();
        assert!(why.starts_with("a publish is longer than the broker takes"), "{why}");
    }

    #[test]
    fn kept_attempts_never_give_up() {
        let mut outage = Outage::new(true);
        let pauses: Vec<Duration> =
            (0..100).map(|_| outage.lost("b", broken(), None).expect("another attempt")).collect();
        assert!(pauses[0] < PAUSE * 2 && pauses[3] >= PAUSE * 8);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST.mul_f64(1.25)));
        assert!(outage.lasts());
        outage.over("b");
        assert!(!outage.lasts());
    }

    #[test]
    fn short_connections_in_a_row_slow_down() {
        let (mut patient, mut hasty) = (Outage::new(true), Outage::new(false));
        let short = Some(Duration::from_millis(1));
        for _ in 1..SHORT_MAX {
            hasty.over("b");
            hasty.lost("b", ConnectionLostError::closed(), short).expect("another attempt");
        }
        for _ in 0..7 {
            patient.over("b");
            patient.lost("b", ConnectionLostError::closed(), short).expect("another attempt");
        }
        assert!(
            hasty
                .lost("b", ConnectionLostError::closed(), short)
                .is_err_and(|why| matches!(why, GivenUp::Short { .. }))
        );
        assert!(patient.lost("b", ConnectionLostError::closed(), short).expect("patience") >= LONGEST);
        patient.over("b");
        let long = patient.lost("b", ConnectionLostError::closed(), Some(SHORT)).expect("another attempt");
        assert!(long < PAUSE * 2, "a long connection begins anew");
    }
}
