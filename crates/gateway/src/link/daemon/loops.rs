//! The thread that looks for loops of gateways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antedate_host::fault::Fault;

use crate::config::Checked;
use crate::link::echo::Desk;
use crate::link::loops::Guard;
use crate::link::message::Shown;
use crate::run::runs::Runs;
use crate::run::setup;
use crate::run::trouble::Trouble;
use crate::run::watch::Watch;
use crate::sys::thread::now;

/// Probes that follow one another quickly once there is a key: a loop is there from then on.
const FIRST: u32 = 5;
const QUICK: Duration = Duration::from_millis(20);
/// The longest sleep, after which a stop is noticed.
const NAP: Duration = Duration::from_millis(100);

/// Starts the thread.
pub(super) fn start(
    checked: &Checked,
    (desk, guard): (Arc<Desk>, Arc<Guard>),
    watch: Arc<Watch>,
    shown: Arc<Shown>,
) -> Result<Option<Runs>, Fault> {
    let Some(settings) = checked.config.loops else { return Ok(None) };
    let work = move |stop: &AtomicBool| {
        setup::frames_only();
        let (mut said, mut due, mut blocked) = (0, Instant::now(), false);
        while !stop.load(Ordering::Acquire) {
            if shown.encoding.get() == 0 {
                said = 0;
            } else if Instant::now() >= due || said < FIRST {
                desk.say_probe();
                said += 1;
                due = Instant::now() + settings.probe;
            }
            let blocks = guard.decide(now());
            if blocks != blocked {
                blocked = blocks;
                if blocks {
                    tracing::warn!(
                        "a probe came back by the field port: this gateway blocks, as the highest of a loop"
                    );
                } else {
                    tracing::info!("no probe comes back any more: this gateway forwards again");
                }
            }
            let found = guard.finds_loop(now());
            let what = if blocks { "this gateway blocks" } else { "a gateway with a higher SCI blocks" };
            watch.holds(Trouble::FieldLoop, "", found.then_some(what));
            thread::sleep(if said < FIRST { QUICK } else { NAP.min(settings.probe) });
        }
    };
    let mut runs = Runs::default();
    runs.add("loops", checked.config.run.priority, work)
        .map_err(|error| Fault::of_thread(&checked.config.file, &error))?;
    Ok(Some(runs))
}
