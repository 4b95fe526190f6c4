//! Experiment `motes`: hiller2018's figures on an emulated MSP430 at 16 MHz and a Cortex-M3.
//!
//! The programs are those of `firmware/`; they check known answers before they measure. The MSP430
//! is this crate's simulator ([`crate::msp430`]), which counts cycles. The Cortex-M3 is QEMU's,
//! which counts instructions. The paper's Zolertia Z1 used the AES engine of its radio chip, so
//! each figure appears twice: with AES in software, and with a model of such an engine.

mod archive;
mod figures;
mod goals;
mod printed;
mod run;

use crate::msp430::Devices;
use crate::{ExperimentError, Options, Report, Row};
pub(crate) use run::Footprint;
use run::{Numbers, Programs};

/// Cycles per block of the modelled AES engine: 0.24 ms at 16 MHz (hiller2018, section VI-B).
const ENGINE_CYCLES: u64 = 3840;

/// Counts of all programs.
struct Counted {
    cortex_m3: Numbers,
    msp430: Numbers,
    /// An MSP430 with an AES engine.
    engine: Numbers,
    /// Bytes of code of the CCM path: Cortex-M3, MSP430.
    code: [usize; 2],
}

/// Looks up a program's number by its name.
pub(crate) type Count = Box<dyn Fn(&str) -> Result<f64, ExperimentError>>;

/// Counts for the timeslot experiment: Cortex-M3, MSP430. The program `tsch` with a whole node exceeds
/// an MSP430's flash.
pub(crate) fn slots() -> Result<[Count; 2], ExperimentError> {
    let programs = Programs::find()?;
    let mut numbers = [programs.cortex_m3("slots")?, programs.msp430("slots", Devices::default())?];
    numbers[0].extend(programs.cortex_m3("tsch")?);
    Ok(numbers.map(|numbers| Box::new(move |name: &str| numbers.get(name)) as Count))
}

/// Footprint of link-layer security: each program over the same one without security, in the order
/// of `names`.
pub(crate) fn footprints(cortex_m3: bool, names: &[&str]) -> Result<Vec<Footprint>, ExperimentError> {
    footprints_over(cortex_m3, "node-plain", names)
}

/// Footprint of programs over the program `plain`.
fn footprints_over(cortex_m3: bool, plain: &str, names: &[&str]) -> Result<Vec<Footprint>, ExperimentError> {
    let programs = Programs::find()?;
    let plain = programs.footprint(cortex_m3, plain)?;
    let over = |name: &&str| {
        let of = programs.footprint(cortex_m3, name)?;
        Ok(Footprint { flash: of.flash - plain.flash, ram: of.ram - plain.ram })
    };
    names.iter().map(over).collect()
}

/// Counts of the MQTT programs, and the clients' footprints over one without protection.
pub(crate) struct MqttCounts {
    pub(crate) count: Count,
    /// In the order of [`MQTT_CLIENTS`].
    pub(crate) footprints: Vec<Footprint>,
}

/// The clients whose images are compared.
pub(crate) const MQTT_CLIENTS: [&str; 8] = [
    "client-blocks",
    "client-cbc",
    "client-ocb3",
    "client-ccm",
    "client-ccm-antedated",
    "client-ccm-sensor",
    "client-gcm",
    "client-chacha",
];

/// Counts MQTT: MSP430, Cortex-M3. Calls `step` for each program.
pub(crate) fn mqtt(mut step: impl FnMut(&str)) -> Result<[MqttCounts; 2], ExperimentError> {
    let programs = Programs::find()?;
    let mut of = |cortex_m3: bool| {
        let mut all: Option<Numbers> = None;
        for name in ["mqtt_ccm", "mqtt_bare", "mqtt_ocb3", "mqtt_gcm", "mqtt_chacha", "link"] {
            let numbers = if cortex_m3 {
                step(&format!("{name} on a Cortex-M3"));
                programs.cortex_m3(name)?
            } else {
                step(&format!("{name} on an MSP430"));
                programs.msp430(name, Devices::default())?
            };
            match &mut all {
                Some(all) => all.extend(numbers),
                None => all = Some(numbers),
            }
        }
        step("images");
        let numbers = all.ok_or("no program ran")?;
        let mut footprints = footprints_over(cortex_m3, "client-plain", &MQTT_CLIENTS)?;
        // Link-layer security belongs to the node's image.
        footprints.extend(footprints_over(cortex_m3, "node-plain", &["node-secured"])?);
        Ok::<_, ExperimentError>(MqttCounts {
            count: Box::new(move |name: &str| numbers.get(name)),
            footprints,
        })
    };
    Ok([of(false)?, of(true)?])
}

/// Counts of the scenario programs: CCM_8, sparse templates of GCM and ChaCha20-Poly1305, and the
/// runtime.
pub(crate) struct ScenarioCounts {
    pub(crate) ccm: Count,
    /// `None` for the mote with an AES engine, which only CCM_8 uses.
    pub(crate) gcm: Option<Count>,
    pub(crate) chacha: Option<Count>,
    pub(crate) schedule: Option<Count>,
}

/// Counts the scenarios: MSP430, MSP430 with an AES engine, Cortex-M3. Calls `step` for each
/// program.
pub(crate) fn scenarios(mut step: impl FnMut(&str)) -> Result<[ScenarioCounts; 3], ExperimentError> {
    let programs = Programs::find()?;
    let boxed = |numbers: Numbers| Box::new(move |name: &str| numbers.get(name)) as Count;
    let mut msp430 = |name: &str, devices| {
        step(&format!("{name} on an MSP430"));
        programs.msp430(name, devices).map(boxed)
    };
    let software = ScenarioCounts {
        ccm: msp430("scenarios", Devices::default())?,
        gcm: Some(msp430("gcm_holes", Devices::default())?),
        chacha: Some(msp430("chacha_holes", Devices::default())?),
        schedule: Some(msp430("schedule", Devices::default())?),
    };
    let devices = Devices { aes_cycles: Some(ENGINE_CYCLES), ..Devices::default() };
    let ccm = msp430("scenarios_engine", devices)?;
    let engine = ScenarioCounts { ccm, gcm: None, chacha: None, schedule: None };
    let mut cortex_m3 = |name: &str| {
        step(&format!("{name} on a Cortex-M3"));
        programs.cortex_m3(name).map(boxed)
    };
    let cortex_m3 = ScenarioCounts {
        ccm: cortex_m3("scenarios")?,
        gcm: Some(cortex_m3("gcm_holes")?),
        chacha: Some(cortex_m3("chacha_holes")?),
        schedule: Some(cortex_m3("schedule")?),
    };
    Ok([software, engine, cortex_m3])
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let programs = Programs::find()?;
    let steps = 11;
    let mut done = 0;
    let mut step = |what: &str| {
        options.progress(done, steps, what);
        done += 1;
    };
    step("CCM on a Cortex-M3");
    let mut cortex_m3 = programs.cortex_m3("ccm")?;
    step("ChaCha20-Poly1305 on a Cortex-M3");
    cortex_m3.extend(programs.cortex_m3("chacha")?);
    step("Ascon-AEAD128 on a Cortex-M3");
    cortex_m3.extend(programs.cortex_m3("ascon")?);
    step("a DTLS record on a Cortex-M3");
    cortex_m3.extend(programs.cortex_m3("dtls")?);
    step("CCM on an MSP430");
    let mut msp430 = programs.msp430("ccm", Devices::default())?;
    step("CCM on an MSP430 with an AES engine");
    let with_engine = Devices { aes_cycles: Some(ENGINE_CYCLES), ..Devices::default() };
    let engine = programs.msp430("engine", with_engine)?;
    step("ChaCha20-Poly1305 on an MSP430");
    msp430.extend(programs.msp430("chacha", Devices::default())?);
    step("Ascon-AEAD128 on an MSP430");
    msp430.extend(programs.msp430("ascon", Devices::default())?);
    step("a DTLS record on an MSP430");
    msp430.extend(programs.msp430("dtls", Devices::default())?);
    step("code sizes");
    programs.runs()?;
    let code = programs.code_sizes()?;
    options.progress(steps, steps, "");

    let counted = Counted { cortex_m3, msp430, engine, code };
    let mut report = Report::new("motes", "hiller2018");
    figures::add(&mut report, &counted)?;
    printed::add(&mut report, &counted)?;
    engine_check(&mut report, &counted)?;
    goals::add(&mut report, &counted)?;
    Ok(report)
}

/// The model of the AES engine gives each block the paper's time. The same program with AES in
/// software then differs by the time of its blocks alone: that is the check.
fn engine_check(report: &mut Report, counted: &Counted) -> Result<(), ExperimentError> {
    let block = counted.msp430.get("aes-128-block")? - ENGINE_CYCLES as f64;
    let mut worst = 0.0f64;
    for size in [16, 112, 1000] {
        let name = format!("ccm8-{size}-seal");
        let (software, engine) = (counted.msp430.get(&name)?, counted.engine.get(&name)?);
        let predicted = software - f64::from(printed::operations(size)) * block;
        let percent = 100.0 * (predicted / engine - 1.0);
        worst = if percent.abs() > worst.abs() { percent } else { worst };
    }
    let case = "check of the AES engine's model";
    let note = "simulated MSP430: CCM_8 with the engine, against AES in software less its blocks";
    report.row(Row::new(case, "furthest off", "%").antedated(worst).note(note));
    Ok(())
}
