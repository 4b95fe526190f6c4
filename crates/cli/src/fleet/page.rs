//! `antedate fleet page`: the fleet in a browser, and its metrics for Prometheus. Read-only.

mod draw;
mod metrics;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use antedate_fleet::engine::Engine;
use antedate_fleet::enrol::Request as Pending;
use antedate_fleet::home::Home;
use antedate_fleet::rollout::{self, Rollout, RolloutError};
use antedate_gateway::run::http::request::Request;
use antedate_gateway::run::http::{Answer, Body, Guard, Site, listen};
use antedate_host::fault::Fault;
use antedate_host::signals;
use clap::Args;

use super::show::{Row, row};
use super::{Place, block_on};
use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
pub(crate) struct Page {
    #[command(flatten)]
    place: Place,
    /// The address and port of the page, on this machine only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465")]
    listen: SocketAddr,
    /// Seconds between two looks at NATS.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
}

/// What is known of the fleet at a time.
#[derive(Default)]
struct View {
    fleet: String,
    /// Why there is nothing newer, or empty.
    trouble: String,
    rows: Vec<Row>,
    pending: Vec<Pending>,
    /// Cells, and the seconds since their CAK was made.
    cells: Vec<(String, u64)>,
}

/// The documents.
#[derive(Default)]
struct Shown {
    html: Arc<[u8]>,
    metrics: Arc<[u8]>,
}

struct Pages(Arc<Mutex<Shown>>);

impl Site for Pages {
    fn answer(&mut self, request: &Request<'_>) -> Answer {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match request.path {
            "/" => Answer::Document("text/html; charset=utf-8", Body::Shared(Arc::clone(&shown.html))),
            "/fleet.css" => Answer::Document("text/css; charset=utf-8", Body::Static(draw::STYLE.as_bytes())),
            "/metrics" => {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                Answer::Document(kind, Body::Shared(Arc::clone(&shown.metrics)))
            }
            _ => Answer::Missing("see / and /metrics\n"),
        }
    }
}

impl Page {
    pub(crate) fn run(self) -> Done {
        if !self.listen.ip().is_loopback() {
            let what =
                format!("{} can be reached from other machines, and the page asks nobody", self.listen);
            return Err(Failure::usage(
                what,
                "give an address of 127.0.0.0/8, and use ssh -L from elsewhere",
            ));
        }
        let stop = signals::stop_flag()
            .map_err(|error| Failure::Verdict(format!("signals cannot be caught: {error}")))?;
        let shown = Arc::<Mutex<Shown>>::default();
        let mut view = View::default();
        // A directory without a fleet is a fault at once.
        look(&self.place, &mut view)?;
        let listening = listen(&self.place.directory, "--listen", self.listen)?;
        let at = listening.address();
        let endpoint = listening
            .serve("fleet-page", Guard::default(), Box::new(Pages(Arc::clone(&shown))))
            .map_err(|error| Failure::Verdict(format!("no thread for the page: {error}")))?;
        output::tell(format_args!("the fleet \"{}\": http://{at}/ and http://{at}/metrics", view.fleet));
        block_on(async {
            let mut engine = None;
            while !stop.load(Ordering::Acquire) {
                let trouble = self.refresh(&mut view, &mut engine).await.err();
                view.trouble = trouble.map_or_else(String::new, |error| error.to_string());
                *shown.lock().unwrap_or_else(PoisonError::into_inner) =
                    Shown { html: octets(draw::html(&view)), metrics: octets(metrics::text(&view)) };
                pause(&stop, Duration::from_secs(self.every)).await;
            }
            Ok(())
        })?;
        drop(endpoint);
        Ok(())
    }

    /// Asks NATS. What cannot be had stays as it was.
    async fn refresh(&self, view: &mut View, engine: &mut Option<Engine>) -> Result<(), RolloutError> {
        let home = look(&self.place, view)?;
        let connected = match engine.take() {
            Some(engine) => engine,
            None => Engine::connect(&home.access()?).await?,
        };
        let known = rollout::reports(&home, &connected, &home.reading()?).await?;
        view.pending = Rollout::pending(&home, &connected).await?;
        view.rows = home.members().map(|(id, member)| row(id, member, known.get(id))).collect();
        // One that failed is made anew.
        *engine = Some(connected);
        Ok(())
    }
}

/// Reads the fleet's directory, without the lock of the commands that write.
fn look(place: &Place, view: &mut View) -> Result<Home, Fault> {
    let home = Home::look(&place.directory)?;
    view.fleet.clone_from(&home.fleet.name);
    let mut names: Vec<String> = home.members().map(|(_, member)| member.cell.clone()).collect();
    names.sort();
    names.dedup();
    view.cells.clear();
    for name in names {
        let made = home.cell_if_made(&name)?.and_then(|cell| Some(cell.preferred()?.made));
        view.cells.push((name, made.map_or(0, |made| antedate_fleet::now().saturating_sub(made))));
    }
    Ok(home)
}

fn octets(text: String) -> Arc<[u8]> {
    text.into_bytes().into()
}

async fn pause(stop: &AtomicBool, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end && !stop.load(Ordering::Acquire) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_fleet::home::Member;
    use antedate_fleet::identity::{Identity, Seed};

    fn view() -> View {
        let keys = Identity::of(Seed::of([1; 32])).public();
        let mut ill = row(&keys.id(), &Member::new("press", "gateway", "line4", keys), None);
        ill.what = "<script>".into();
        View {
            fleet: "plant".into(),
            trouble: "NATS & more".into(),
            rows: vec![ill],
            cells: vec![("line4".into(), 86_400)],
            ..View::default()
        }
    }

    #[test]
    fn page_shows_cells_and_escapes_what_devices_say() {
        let html = draw::html(&view());
        for text in ["press", "line4", "never", "NATS &#38; more", "&#60;script&#62;", "1 d"] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn metrics_have_one_series_for_each_device() {
        let text = metrics::text(&view());
        for line in [
            "antedate_fleet_up 0",
            "antedate_fleet_devices{state=\"never\"} 1",
            "antedate_fleet_devices{state=\"ok\"} 0",
            "antedate_fleet_device_state{device=\"press\",role=\"gateway\",cell=\"line4\",state=\"never\"} 1",
            "antedate_fleet_cell_key_age_seconds{cell=\"line4\"} 86400",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }

    #[test]
    fn other_paths_are_told_the_right_ones() {
        let mut pages = Pages(Arc::default());
        let mut ask = |path| pages.answer(&Request { path, ..Request::default() });
        for path in ["/", "/fleet.css", "/metrics"] {
            assert!(matches!(ask(path), Answer::Document(..)), "{path}");
        }
        assert!(matches!(ask("/fleet/signing.key"), Answer::Missing(_)));
    }
}
