//! Threads beside the forwarding ones, that do something at an interval.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use antedate_host::helper;

use crate::run::setup;

/// Running threads. They end once this is dropped.
#[derive(Default)]
pub(crate) struct Runs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Runs {
    /// Starts one, which ends when its flag is set.
    pub(crate) fn add(
        &mut self,
        name: &str,
        priority: Option<u8>,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<()> {
        let stop = Arc::clone(&self.stop);
        let work = move || {
            let _ = setup::place(None, priority);
            work(&stop);
        };
        self.threads.push(helper::thread(name).spawn(work)?);
        Ok(())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic was logged, and there is nothing else to end.
            let _ = thread.join();
        }
    }
}
