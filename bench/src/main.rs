//! The engine beside other implementations, in one run: `cargo xtask bench aead`.
//!
//! A figure is the latency of one packet: fences before and after the call, the cost of an empty
//! call subtracted, a fresh nonce each time, the process on one core. In every round, all
//! contenders of a cipher and length take turns.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the fences and the time stamp counter are those of x86-64");

mod class;
mod classes;
mod clock;
mod field;
mod figure;
mod goals;
mod layouts;
mod meter;
mod ours;
mod packet;
mod peers;
mod results;

use class::Class;
use field::Discipline;
use results::{Measured, Results};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

const USAGE: &str = "antedate-bench [--quick] [--only CIPHER]... [--class NAME | --classes] [--tail] [--json FILE] [--figure FILE]";

/// Bytes of payload.
const FULL: [usize; 8] = [16, 32, 64, 112, 256, 600, 1000, 1500];
const QUICK: [usize; 4] = [16, 64, 256, 1500];

struct Plan {
    lens: &'static [usize],
    rounds: usize,
    only: Vec<String>,
    tail: bool,
    json: Option<String>,
    figure: Option<String>,
    class: Option<&'static Class>,
    classes: bool,
    one_layout: bool,
}

impl Plan {
    fn disciplines(&self) -> Vec<&'static Discipline> {
        let wanted = |cipher: &str| self.only.is_empty() || self.only.iter().any(|name| name == cipher);
        field::ALL.iter().filter(|discipline| wanted(discipline.cipher)).collect()
    }

    /// Arguments for another process to measure the same.
    fn arguments(&self) -> Vec<String> {
        let only = self.only.iter().flat_map(|cipher| ["--only".into(), cipher.clone()]);
        let quick = (self.lens.len() == QUICK.len()).then(|| "--quick".into());
        quick.into_iter().chain(only).collect()
    }
}

fn plan() -> Result<Plan, String> {
    let mut plan = Plan {
        lens: &FULL,
        rounds: 2_000,
        only: Vec::new(),
        tail: false,
        json: None,
        figure: None,
        class: None,
        classes: false,
        one_layout: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => (plan.lens, plan.rounds) = (&QUICK, 600),
            "--tail" => plan.tail = true,
            layouts::ONE => plan.one_layout = true,
            "--only" => plan.only.push(words.next().ok_or(USAGE)?),
            "--class" => plan.class = Some(class::named(&words.next().ok_or(USAGE)?)?),
            "--classes" => plan.classes = true,
            "--figure" => plan.figure = Some(words.next().ok_or(USAGE)?),
            "--json" => plan.json = Some(words.next().ok_or(USAGE)?),
            _ => return Err(USAGE.into()),
        }
    }
    let known = |name: &String| field::ALL.iter().any(|discipline| discipline.cipher == name);
    match plan.only.iter().find(|name| !known(name)) {
        None => Ok(plan),
        Some(name) => {
            let names: Vec<&str> = field::ALL.iter().map(|discipline| discipline.cipher).collect();
            Err(format!("no cipher `{name}`; there are {}", names.join(", ")))
        }
    }
}

fn main() -> ExitCode {
    match plan().and_then(|plan| run(&plan)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("antedate-bench: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(plan: &Plan) -> Result<bool, String> {
    if plan.classes {
        return classes::run(plan);
    }
    if let Some(class) = plan.class {
        if std::env::var_os(class::VARIABLE).is_none_or(|name| name != class.name) {
            return classes::again(class);
        }
        if !class.is_here() {
            return Err(format!(
                "this CPU cannot be of class {}: {}; for another class than its own, `cpuid_fault` must be among \
                 the flags of /proc/cpuinfo",
                class.name, class.what
            ));
        }
    }
    let cpu = clock::pin()?;
    let disciplines = plan.disciplines();
    if plan.one_layout {
        println!("{}", layouts::line(&measure(plan, &disciplines)?));
        return Ok(true);
    }
    let machine = machine(cpu);
    println!("{}, core {cpu}, load {}", machine["cpu"], machine["load"]);
    if let Some(class) = plan.class {
        println!("class {}: {}", class.name, class.what);
    }
    println!("ipsec-mb: {}", ipsec_mb().unwrap_or("not installed, so not measured".into()));
    println!(
        "nanoseconds of a packet, 14 bytes of associated data; x: how many times as long as ours the other takes\n"
    );
    let mut measured = measure(plan, &disciplines)?;
    let mut others = Vec::new();
    for process in 2..=layouts::LAYOUTS {
        progress(&format!("process {process} of {}", layouts::LAYOUTS));
        others.push(layouts::another(&plan.arguments())?);
    }
    progress("");
    layouts::join(&mut measured, &others)?;
    let results = Results(measured);
    for discipline in &disciplines {
        println!("median: {}", results.table(discipline.cipher, |latency| latency.median));
        if plan.tail {
            println!("99 of 100: {}", results.table(discipline.cipher, |latency| latency.p99));
        }
    }
    let ciphers: Vec<&'static str> = disciplines.iter().map(|discipline| discipline.cipher).collect();
    let goals = goals::all(&results, &ciphers);
    print!("{}", goals::table(&goals));
    if let Some(file) = &plan.json {
        let result = json!({
            "experiment": "bench aead", "machine": machine, "class": plan.class.map(|class| class.name), "antedate": env!("CARGO_PKG_VERSION"),
            "method": "lfence around each call, cost of an empty call subtracted, contenders take turns in every round",
            "rounds": plan.rounds, "processes": layouts::LAYOUTS, "packets_in_a_turn": meter::TURN, "aad": packet::AAD.len(),
            "rows": results.0.iter().map(Measured::json).collect::<Vec<_>>(),
            "goals": goals.iter().map(goals::Goal::json).collect::<Vec<_>>(),
        });
        std::fs::write(file, format!("{result:#}\n")).map_err(|error| format!("{file}: {error}"))?;
    }
    if let Some(file) = &plan.figure {
        std::fs::write(file, figure::svg(&results)?).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(!goals.iter().any(goals::Goal::missed))
}

/// All series, in a fixed order.
fn measure(plan: &Plan, disciplines: &[&'static Discipline]) -> Result<Vec<Measured>, String> {
    let tick = clock::nanoseconds_per_tick();
    let mut measured = Vec::new();
    for discipline in disciplines {
        for &len in plan.lens {
            if !plan.one_layout {
                progress(&format!("{}, {len} bytes, process 1 of {}", discipline.cipher, layouts::LAYOUTS));
            }
            let entrants =
                (discipline.entrants)(len).map_err(|what| format!("{}: {what}", discipline.cipher))?;
            let (names, mut contenders): (Vec<_>, Vec<_>) =
                entrants.into_iter().map(|entrant| ((entrant.who, entrant.what), entrant.contender)).unzip();
            let latencies = meter::race(&mut contenders, plan.rounds, tick);
            let series = names.into_iter().zip(latencies);
            measured.extend(series.map(|((who, what), latency)| Measured {
                cipher: discipline.cipher,
                len,
                who,
                what,
                latency,
            }));
        }
    }
    Ok(measured)
}

/// Prints a line on a terminal that the next one replaces; prints nothing in a pipe.
fn progress(text: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
    }
}

#[cfg(ipsec_mb)]
fn ipsec_mb() -> Option<String> {
    Some(peers::ipsec_mb::version())
}

#[cfg(not(ipsec_mb))]
fn ipsec_mb() -> Option<String> {
    None
}

fn machine(cpu: usize) -> serde_json::Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({
        "cpu": model.map_or("unknown", |(_, name)| name), "core": cpu,
        "kernel": read("/proc/sys/kernel/osrelease"), "load": read("/proc/loadavg"),
        "ipsec_mb": ipsec_mb(), "openssl": openssl::version::version(),
    })
}
