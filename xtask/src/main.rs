//! Set-up, demo, test, bench and peers of the workspace: `cargo xtask COMMAND`.
//!
//! One file per command. What several of them need stands beside them: [`shell`] runs programs with a time bound,
//! [`report`] times steps and sums them up, [`sandbox`] gives a private network, [`net`] builds the paths of
//! namespaces in it, [`daemon`] starts real gateways on them, [`mod@bench`] measures over them.

use std::process::ExitCode;

mod bench;
mod ci;
mod cross;
mod daemon;
mod demo;
mod disk;
mod firmware;
mod guest;
mod licences;
mod net;
mod nostd;
mod peers;
mod report;
mod sandbox;
mod setup;
mod shell;
mod test;

const USAGE: &str = "\
cargo xtask COMMAND

  setup [--for PURPOSE]                 install Debian packages, told before: demo, test, peers, bench,
                                        ciphers, firmware; without PURPOSE demo, test and bench
  demo [ARGS...]                        set-up, release build, `antedate demo ARGS...`
  test [--only STEP]...                 set-up, and everything that CI runs; `--list` names the steps
  peers [NAME]...                       the independent implementations alone; `--list` names them
  bench gateway [--quick] [--no-verdict] [--only PART]
                                        the gateway beside bridges and OpenVPN, in one run
  bench aead [--quick] [--only CIPHER]  the engine beside other implementations, in one run
  firmware                              the programs of the motes: built, run, measured
  cross [TARGET]... [--only PART]       for other CPUs: compiled, and tested emulated; `--list` names them
  ci                                    `test`, and a skipped step is a failure

Exit status: 0 all passed, 1 something failed, 2 a usage error or a machine that lacks what is needed.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    if let Err(message) = shell::end_with_signals() {
        eprintln!("xtask: {message}");
    }
    let outcome = match command {
        "setup" => setup::main(rest),
        "demo" => demo::main(rest),
        "test" => test::main(rest),
        "peers" => peers::main(rest),
        "bench" => bench::main(rest),
        "firmware" => firmware::main(rest),
        "cross" => cross::main(rest),
        "ci" => ci::main(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        other => Err(format!("no command `{other}`\n\n{USAGE}")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}
