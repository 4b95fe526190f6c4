//! The metrics of `[metrics]`: OpenMetrics, and the format before it.
//!
//! Any user of the machine may ask, so the status is taken once a second at most, however many ask:
//! it costs the forwarding threads some microseconds.
//!
//! - `families`: the metrics
//! - `text`: their text format

mod families;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::text::{Family, Format};
use crate::run::control::StatusSource;
use crate::run::http::request::Request;
use crate::run::http::{Answer, Site};

/// The least time between two snapshots of the status.
const FRESH: Duration = Duration::from_secs(1);

/// The metrics of a gateway.
pub struct Metrics {
    source: Arc<dyn StatusSource>,
    /// The last metrics, and their time.
    shown: Option<(Instant, Vec<Family>)>,
}

impl Metrics {
    /// Of this gateway.
    #[must_use]
    pub const fn new(source: Arc<dyn StatusSource>) -> Self {
        Self { source, shown: None }
    }

    /// The metrics, at most a second old.
    fn families(&mut self) -> &[Family] {
        if self.shown.as_ref().is_none_or(|(at, _)| at.elapsed() >= FRESH) {
            let families = families::of(&self.source.status());
            self.shown = Some((Instant::now(), families));
        }
        self.shown.as_ref().map_or(&[], |(_, families)| families)
    }
}

impl Site for Metrics {
    fn answer(&mut self, request: &Request<'_>) -> Answer {
        if request.path != "/metrics" {
            return Answer::Missing("see /metrics\n");
        }
        let format = accepted(request.accept);
        Answer::Document(format.media_type(), text::write(self.families(), format).into())
    }
}

/// The format that the client accepts. `curl` and older programs do not ask for OpenMetrics.
fn accepted(types: &str) -> Format {
    let modern = types.to_ascii_lowercase().contains("openmetrics-text");
    if modern { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::run::control::{Command, CommandError, Echo, Ping};
    use crate::run::http::Body;
    use crate::run::status::Status;

    /// Counts how often it is asked.
    #[derive(Default)]
    struct Counted(AtomicU64);

    impl StatusSource for Counted {
        fn status(&self) -> Status {
            self.0.fetch_add(1, Ordering::Relaxed);
            Status { antedate: "1".into(), ..Status::default() }
        }

        fn command(&self, _: Command) -> Result<String, CommandError> {
            unreachable!("metrics change nothing")
        }

        fn ping(&self, _: &Ping) -> Result<Echo, CommandError> {
            unreachable!("metrics send nothing")
        }
    }

    #[test]
    fn status_is_taken_once_a_second() {
        let source = Arc::new(Counted::default());
        let mut metrics = Metrics::new(Arc::clone(&source) as Arc<dyn StatusSource>);
        for (accept, kind) in [
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text"),
            ("*/*", "text/plain; version=0.0.4"),
            ("", "text/plain; version=0.0.4"),
        ] {
            let request = Request { path: "/metrics", accept, ..Request::default() };
            let Answer::Document(found, Body::Shared(text)) = metrics.answer(&request) else {
                panic!("{accept}")
            };
            let text = String::from_utf8_lossy(&text);
            assert!(found.starts_with(kind), "{found}");
            assert!(text.contains("\nantedate_build{version=\"1\""), "{text}");
            assert_eq!(text.ends_with("# EOF\n"), kind.contains("openmetrics"));
        }
        assert!(source.0.load(Ordering::Relaxed) < 3);
        let other = Request { path: "/", ..Request::default() };
        assert!(matches!(metrics.answer(&other), Answer::Missing(_)));
    }
}
