//! The C interface on a Cortex-M3, beside the engine's calls from Rust: instructions and code size.

use crate::capi;
use crate::elf::Elf;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use xtask::shell::{Run, program, root};

/// C takes at most this many times the instructions of Rust.
const RATIO: f64 = 1.1;
/// Code of CCM prepared and opened, with the functions of the compiler's library; its table of 1 KB
/// comes in addition.
const CODE: u64 = 12 * 1024;
const TABLE: u64 = 1024;
/// The same with bit-sliced AES. The goal of 12 KB is missed.
const SLICED_CODE: u64 = 13_056;
const SLICED_INSTRUCTIONS: f64 = 27_000.0;
/// A call of Rust's program that C has in two.
const FEWEST: usize = 9;

const TARGET: &str = "thumbv7m-none-eabi";
/// clang's words for that CPU.
const CLANG: [&str; 5] = ["--target=thumbv7m-none-eabi", "-mcpu=cortex-m3", "-Os", "-Wall", "-Werror"];
const PROGRAM: [&str; 3] = ["-ffreestanding", "-Wextra", "-DSUITE=ANTEDATE_AES_128_CCM_8"];
/// Words for QEMU's Cortex-M3.
pub(crate) const EMULATOR: [&str; 14] = [
    "-M",
    "mps2-an385",
    "-icount",
    "shift=0",
    "-display",
    "none",
    "-monitor",
    "none",
    "-serial",
    "none",
    "-chardev",
    "stdio,id=console",
    "-semihosting-config",
    "enable=on,target=native,chardev=console",
];

/// Builds the libraries for motes and the programs in C, runs them beside `rust`, the program of the
/// same name in Rust, and judges. Returns a note.
pub(crate) fn check(rust: &Path) -> Result<String, String> {
    let table = Library::build(capi::Aes::Table)?;
    let ratio = table.numbers()?.against(&Numbers::of(rust)?)?;
    let code = table.code()?.saturating_sub(TABLE);
    if code > CODE {
        return Err(format!("CCM from C takes {code} bytes of code beside its table, more than {CODE}"));
    }
    let sliced = Library::build(capi::Aes::Bitslice)?;
    let instructions = sliced.numbers()?.net("seal-112").ok_or("the program says no number of seal-112")?;
    let bytes = sliced.code()?;
    println!("bit-sliced: {instructions} instructions for 112 octets, {bytes} bytes of code");
    if instructions > SLICED_INSTRUCTIONS || bytes > SLICED_CODE {
        return Err(format!(
            "bit-sliced CCM from C: {instructions} instructions for 112 octets, at most {SLICED_INSTRUCTIONS}; {bytes} \
             bytes of code, at most {SLICED_CODE}"
        ));
    }
    Ok(format!(
        "C: at most {ratio:.3} times the instructions of Rust, {code} bytes of code; bit-sliced {bytes} bytes"
    ))
}

/// A library for motes, and the programs that are linked with it.
struct Library {
    folder: PathBuf,
    /// The code that starts a program.
    start: PathBuf,
}

impl Library {
    fn build(aes: capi::Aes) -> Result<Self, String> {
        let folder = capi::build(&capi::Arguments {
            target: Some(TARGET.to_string()),
            suite: vec!["ccm".to_string()],
            aes,
            capacity: None,
            out: None,
            profile: None,
            mqtt: false,
        })?;
        let start = folder.join("reset.o");
        let reset = root().join("firmware/cortex-m3/src/reset.s");
        program("clang-16").args(CLANG).arg("-c").arg(reset).arg("-o").arg(&start).echoed(20)?;
        Ok(Self { folder, start })
    }

    fn link(&self, name: &str, define: &str) -> Result<PathBuf, String> {
        let at = |ending: &str| self.folder.join(format!("{name}{define}.{ending}"));
        let (object, image) = (at("o"), at("elf"));
        let source = root().join("firmware/c").join(name).with_extension("c");
        let mut compiler = program("clang-16");
        compiler.args(CLANG).args(PROGRAM).arg(define).arg("-I").arg(self.folder.join("include"));
        compiler.arg("-c").arg(source).arg("-o").arg(&object).echoed(20)?;
        let script = root().join("firmware/cortex-m3/memory.ld");
        let mut linker = program("ld.lld-16");
        linker.args(["--no-undefined", "--gc-sections", "-T"]).arg(script).args([&self.start, &object]);
        linker.arg(self.folder.join("lib/libantedate.a")).arg("-o").arg(&image).echoed(20)?;
        Ok(image)
    }

    fn numbers(&self) -> Result<Numbers, String> {
        Numbers::of(&self.link("interface", "-DMEASURE")?)
    }

    /// The library's bytes of flash in a program, its tables included.
    fn code(&self) -> Result<u64, String> {
        let of = |define| Ok::<_, String>(Elf::read(&self.link("smallest", define)?)?.flash());
        Ok(of("-DEXCHANGE")?.saturating_sub(of("-DNOTHING")?))
    }
}

/// The lines of a program: what was measured, and the number.
struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    /// Runs a program.
    fn of(image: &Path) -> Result<Self, String> {
        let said = program("qemu-system-arm").args(EMULATOR).arg("-kernel").arg(image).read(60)?;
        Ok(Self::read(&said))
    }

    fn read(said: &str) -> Self {
        let lines = said.lines().filter_map(|line| line.split_once(' '));
        Self(lines.filter_map(|(what, number)| Some((what.to_string(), number.parse().ok()?))).collect())
    }

    /// The instructions of a measurement, without those of the counter.
    fn net(&self, what: &str) -> Option<f64> {
        Some(self.0.get(what)? - self.0.get("nothing")?)
    }

    /// The largest ratio to the same measurements in Rust; an error if it is too large.
    fn against(&self, rust: &Self) -> Result<f64, String> {
        let (mut largest, mut compared) = (0.0, 0);
        for what in rust.0.keys().filter(|what| *what != "nothing") {
            let (Some(c), Some(rust)) = (self.net(what), rust.net(what)) else {
                return Err(format!("the program in C does not print {what}"));
            };
            println!("{what}: {c} instructions from C, {rust} from Rust, {:.3} times", c / rust);
            if c > rust * RATIO {
                return Err(format!(
                    "{what} takes {c} instructions from C and {rust} from Rust, more than {RATIO} times"
                ));
            }
            (largest, compared) = (f64::max(largest, c / rust), compared + 1);
        }
        if compared < FEWEST {
            return Err(format!("{compared} measurements were compared, not {FEWEST}"));
        }
        Ok(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(extra: f64) -> Numbers {
        let lines = (0..FEWEST).map(|i| format!("call-{i} {}\n", 382.0 + extra));
        Numbers::read(&format!("nothing 282\n{}", lines.collect::<String>()))
    }

    #[test]
    fn slower_calls_from_c_are_refused() {
        assert_eq!(numbers(10.0).against(&numbers(0.0)), Ok(1.1));
        let slow = numbers(11.0).against(&numbers(0.0)).expect_err("too slow");
        assert!(slow.contains("call-0 takes 111 instructions from C and 100 from Rust"), "{slow}");
        assert!(numbers(0.0).against(&Numbers::read("nothing 282\n")).is_err(), "nothing was compared");
        assert!(Numbers::read("call-0 400\n").against(&numbers(0.0)).is_err(), "a line is missing");
    }
}
