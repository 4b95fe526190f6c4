//! The sensor with Embassy on a Cortex-M4: one task prepares and seals, others run between two steps
//! of the preparation.
//!
//! Embassy's packages of a chip bring a time driver. This one is SysTick, so that the program runs on
//! any Cortex-M, emulated ones too.
#![no_std]
#![no_main]

use antedate_sensor::{Failure, READINGS, ccm, front, print};
use core::cell::RefCell;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use critical_section::Mutex;
use embassy_executor::Spawner;
use embassy_futures::yield_now;
use embassy_time::{Duration, Instant, Ticker};
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;
use semihosting::{println, process};

/// The CPU's clock after a reset of the STM32F405.
const HZ: u32 = 16_000_000;
/// The interval of the readings.
const CYCLE: Duration = Duration::from_millis(20);

/// Time by SysTick, a tick each millisecond.
struct SysTime {
    /// Wraps after 49 days, which is longer than this program lives.
    ticks: AtomicU32,
    waiting: Mutex<RefCell<Queue>>,
}

embassy_time_driver::time_driver_impl!(static TIME: SysTime = SysTime {
    ticks: AtomicU32::new(0),
    waiting: Mutex::new(RefCell::new(Queue::new())),
});

impl Driver for SysTime {
    fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed).into()
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        // The next tick looks at all of them.
        critical_section::with(|section| self.waiting.borrow_ref_mut(section).schedule_wake(at, waker));
    }
}

#[exception]
fn SysTick() {
    TIME.ticks.fetch_add(1, Ordering::Relaxed);
    // Wakes the tasks whose time has come.
    critical_section::with(|section| TIME.waiting.borrow_ref_mut(section).next_expiration(TIME.now()));
}

/// Turns of the other task.
static TURNS: AtomicU32 = AtomicU32::new(0);

/// What else a device does.
#[embassy_executor::task]
async fn other() {
    loop {
        TURNS.fetch_add(1, Ordering::Relaxed);
        yield_now().await;
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    if let Some(mut peripherals) = cortex_m::Peripherals::take() {
        peripherals.SYST.set_clock_source(SystClkSource::Core);
        peripherals.SYST.set_reload(HZ / 1000 - 1);
        peripherals.SYST.clear_current();
        peripherals.SYST.enable_interrupt();
        peripherals.SYST.enable_counter();
    }
    let spawned = other().map(|task| spawner.spawn(task));
    let done = if spawned.is_ok() { sensor().await } else { Err("no task") };
    match done {
        Ok(()) => process::exit(0),
        Err(what) => {
            println!("failed: {what}");
            process::exit(1)
        }
    }
}

async fn sensor() -> Result<(), Failure> {
    let (mut sealer, mut slot) = ccm()?;
    let front = front()?;
    let mut ticker = Ticker::every(CYCLE);
    let start = Instant::now();
    for reading in &READINGS {
        let mut prepared = sealer.prepare_front(&front, &mut slot).map_err(|_| "prepare")?;
        // One AES block, then the others' turn.
        let (mut steps, before) = (0, TURNS.load(Ordering::Relaxed));
        while prepared.step(1) > 0 {
            steps += 1;
            yield_now().await;
        }
        let turns = TURNS.load(Ordering::Relaxed) - before;
        if turns < steps {
            return Err("the preparation held the other task");
        }
        // The reading is there.
        ticker.next().await;
        let sealed = prepared.seal(reading).map_err(|_| "seal")?;
        let mut line = Line::default();
        print("ccm", sealed.number(), sealed.ciphertext(), sealed.tag().as_bytes(), &mut line)
            .map_err(|_| "print")?;
        semihosting::print!("{}", line.text());
    }
    let took = (Instant::now() - start).as_millis();
    let due = CYCLE.as_millis() * READINGS.len() as u64;
    if took < due {
        return Err("the readings came early");
    }
    println!("{} readings in {took} ms", READINGS.len());
    Ok(())
}

/// A line of text.
struct Line([u8; 128], usize);

impl Default for Line {
    fn default() -> Self {
        Self([0; 128], 0)
    }
}

impl Line {
    fn text(&self) -> &str {
        core::str::from_utf8(&self.0[..self.1]).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let place = self.0.get_mut(self.1..self.1 + text.len()).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.1 += text.len();
        Ok(())
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(3)
}
