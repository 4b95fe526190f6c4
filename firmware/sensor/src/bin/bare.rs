//! The sensor without an operating system or framework, on a Cortex-M4 or a RISC-V of 32 bits.
#![no_std]
#![no_main]

use antedate_sensor::{Failure, run_ccm, run_chacha};
use semihosting::{io, println, process};

// The start-up code, with the critical sections that the CPU has.
#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
#[cfg(target_arch = "riscv32")]
use riscv_rt::entry;

#[entry]
fn main() -> ! {
    let code = match run() {
        Ok(()) => 0,
        Err(what) => {
            println!("failed: {what}");
            1
        }
    };
    process::exit(code)
}

fn run() -> Result<(), Failure> {
    let mut out = Console(io::stdout().map_err(|_| "no console")?);
    run_ccm(&mut out)?;
    run_chacha(&mut out)
}

/// The host's console.
struct Console<W>(W);

impl<W: io::Write> core::fmt::Write for Console<W> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| core::fmt::Error)
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(3)
}
