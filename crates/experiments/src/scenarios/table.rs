//! Table I and figure 7: the largest payload within a bound, the time left of it, and the cost of
//! preparing.

use super::{Mote, Report};
use crate::ExperimentError;
use crate::Row;
use crate::report::Printed;

/// The longest payload of a record in any scenario.
pub(super) const LAST: usize = 1521;

/// A scenario: its smallest and largest payload, its tightest bound in ms.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) sizes: [usize; 2],
    pub(super) bound: f64,
    /// The largest payload within the bound: unmodified, antedated, with a template of 48 bytes.
    pub(super) largest: [Printed; 3],
    /// Time left at the smallest payload: unmodified, antedated, with a template of 48 bytes.
    pub(super) left: [Printed; 3],
}

const fn scenario(
    name: &'static str,
    sizes: [usize; 2],
    bound: f64,
    largest: [Printed; 3],
    left: [Printed; 3],
) -> Scenario {
    Scenario { name, sizes, bound, largest, left }
}

/// Table I; the sizes and results of section VI-C.
pub(super) const SCENARIOS: [Scenario; 9] = [
    scenario("condition monitoring", [50, 50], 100.0, [None; 3], [None; 3]),
    scenario("process automation", [80, 80], 50.0, [None; 3], [None; 3]),
    // Evaluated at 80 bytes too; the paper does not say against which of its bounds.
    scenario("logistics automation", [80, 300], 15.0, [None; 3], [Some(4.88), Some(10.0), Some(10.26)]),
    scenario("factory maintenance", [200, 1000], 20.0, [Some(608.0), None, Some(1000.0)], [None; 3]),
    scenario("packaging", [15, 15], 5.0, [None; 3], [None; 3]),
    scenario("printing", [30, 30], 2.0, [None; 3], [Some(0.45), Some(1.63), None]),
    // With a template of 32 bytes, all 50.
    scenario("production lines", [20, 50], 1.0, [None, Some(32.0), Some(50.0)], [None; 3]),
    scenario("smart grid", [200, LAST], 8.0, [Some(224.0), Some(464.0), Some(496.0)], [None; 3]),
    scenario("augmented reality", [200, 1000], 10.0, [Some(288.0), Some(608.0), None], [None; 3]),
];

/// A way of sealing.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Unmodified,
    Antedated,
    Template(usize),
}

impl Way {
    pub(super) const ALL: [Self; 5] =
        [Self::Unmodified, Self::Antedated, Self::Template(16), Self::Template(32), Self::Template(48)];

    pub(super) fn name(self) -> String {
        match self {
            Self::Unmodified => "CCM_8 unmodified".into(),
            Self::Antedated => "CCM_8 antedated".into(),
            Self::Template(len) => format!("CCM_8 antedated, template of {len} B"),
        }
    }

    /// Name of its number at a size. A template must be shorter than its packet.
    pub(super) fn count(self, size: usize) -> Option<String> {
        match self {
            Self::Unmodified => Some(format!("scenario-{size}-seal")),
            Self::Antedated => Some(format!("scenario-{size}-stream-online")),
            Self::Template(len) if len < size => Some(format!("scenario-{size}-{len}-front-online")),
            Self::Template(_) => None,
        }
    }
}

/// The counted sizes.
pub(super) fn sizes() -> impl Iterator<Item = usize> {
    (16..=LAST).step_by(16).chain([15, 20, 30, 50, 300, LAST])
}

/// The counted size that stands for a payload in CCM: the same size, or else the next with as many
/// blocks.
pub(super) fn size_of_ccm(size: usize) -> usize {
    if sizes().any(|counted| counted == size) { size } else { size.next_multiple_of(16) }
}

/// The largest counted payload that is sealed within the bound, up to `most`.
pub(super) fn within(
    mote: &Mote,
    way: Way,
    bound: f64,
    most: usize,
) -> Result<Option<usize>, ExperimentError> {
    let mut largest = None;
    for size in sizes().filter(|size| *size <= most) {
        if let Some(name) = way.count(size)
            && mote.ms(&name)? <= bound
        {
            largest = largest.max(Some(size));
        }
    }
    Ok(largest)
}

/// The largest payload of any size within each bound.
pub(super) fn largest(report: &mut Report, mote: &Mote) -> Result<(), ExperimentError> {
    for Scenario { name, bound, largest, .. } in &SCENARIOS {
        let unmodified = within(mote, Way::Unmodified, *bound, LAST)?;
        for way in Way::ALL {
            let printed = match way {
                Way::Unmodified => largest[0],
                Way::Antedated => largest[1],
                Way::Template(48) => largest[2],
                Way::Template(32) if *name == "production lines" => largest[2],
                Way::Template(_) => None,
            };
            let case = format!("{name}, {}: {}", mote.name, way.name());
            let row = Row::new(case, format!("largest payload within {bound} ms"), "bytes")
                .paper(printed)
                .note(mote.note);
            let found = within(mote, way, *bound, LAST)?.unwrap_or(0) as f64;
            report.row(match way {
                Way::Unmodified => row.baseline(found),
                _ => row.baseline(unmodified.unwrap_or(0) as f64).antedated(found),
            });
        }
    }
    Ok(())
}

/// The time left of each bound at the scenario's own sizes, sparse templates included.
pub(super) fn time_left(report: &mut Report, mote: &Mote) -> Result<(), ExperimentError> {
    for Scenario { name, sizes, bound, left, .. } in &SCENARIOS {
        for (i, size) in sizes.iter().enumerate().filter(|(i, _)| sizes[0] != sizes[1] || *i == 0) {
            let size_of_ccm = size_of_ccm(*size);
            let unmodified = bound - mote.ms(&format!("scenario-{size_of_ccm}-seal"))?;
            for way in Way::ALL {
                let Some(count) = way.count(size_of_ccm) else { continue };
                let printed = match way {
                    Way::Unmodified if i == 0 => left[0],
                    Way::Antedated if i == 0 => left[1],
                    Way::Template(48) if i == 0 => left[2],
                    _ => None,
                };
                let case = format!("{name}, {} B, {}: {}", size, mote.name, way.name());
                let row =
                    Row::new(case, format!("time left of {bound} ms"), "ms").paper(printed).note(mote.note);
                let found = bound - mote.ms(&count)?;
                report.row(match way {
                    Way::Unmodified => row.baseline(found),
                    _ => row.baseline(unmodified).antedated(found),
                });
            }
            for (cipher, what, counts) in
                [("GCM", "gcm", &mote.counts.gcm), ("ChaCha20-Poly1305", "chacha", &mote.counts.chacha)]
            {
                let Some(counts) = counts else { continue };
                for new in [16, 32] {
                    let case = format!("{name}, {} B, {}: {cipher}, {} new", size, mote.name, new.min(*size));
                    let seal = bound - counts(&format!("{what}-{size}-seal"))? / mote.counts_per_ms;
                    let online =
                        counts(&format!("{what}-{size}-{new}-template-online"))? / mote.counts_per_ms;
                    let row = Row::new(case, format!("time left of {bound} ms"), "ms").baseline(seal);
                    report.row(row.antedated(bound - online).note(mote.note));
                }
            }
        }
    }
    Ok(())
}

/// Section VI-A: the work of preparing in all, which determines its energy.
pub(super) fn overhead(report: &mut Report, mote: &Mote) -> Result<(), ExperimentError> {
    let milliwatts = antedate_plan::device::find(mote.device).map_or(0.0, |device| device.cpu_mw);
    let mut add = |case: String, printed: Printed, [seal, prepare, online]: [f64; 3], note: String| {
        let energy = |counts: f64| counts / mote.counts_per_ms * milliwatts;
        let row = Row::new(&case, "energy of a packet, preparing included", "uJ").baseline(energy(seal));
        report.row(row.antedated(energy(prepare + online)).note(&note));
        let row = Row::new(&case, "energy overhead of preparing", "%").paper(printed);
        report.row(row.antedated(100.0 * (prepare + online - seal) / seal).note(&note));
    };
    for (size, printed) in
        [(16, Some(27.59)), (48, Some(11.28)), (80, Some(8.20)), (208, Some(5.36)), (1008, Some(4.14))]
    {
        let case = |how: String| format!("{size} B, {}: CCM_8 antedated{how}", mote.name);
        let get = |part: &str| (mote.counts.ccm)(&format!("scenario-{size}-{part}"));
        let seal = get("seal")?;
        let all = [seal, get("stream-prepare")?, get("stream-online")?];
        let paper = "the paper's is of the encryption alone, at 200 and 1000 B";
        add(case(String::new()), printed, all, format!("{}; CPU time; {paper}", mote.note));
        for front in [16, 48].into_iter().filter(|front| *front < size) {
            let all = [seal, get(&format!("{front}-front-prepare"))?, get(&format!("{front}-front-online"))?];
            let case = case(format!(", template of {front} B"));
            add(case, None, all, format!("{}; CPU time; the paper has 0.02 to 0.1 ms more", mote.note));
        }
    }
    for (cipher, what, counts) in
        [("GCM", "gcm", &mote.counts.gcm), ("ChaCha20-Poly1305", "chacha", &mote.counts.chacha)]
    {
        let Some(counts) = counts else { continue };
        for size in [30, 80, 200, 300, 1000, 1521] {
            let get = |part: &str| counts(&format!("{what}-{size}-{part}"));
            let all = [get("seal")?, get("16-template-prepare")?, get("16-template-online")?];
            let case = format!("{size} B, {}: {cipher}, 16 new", mote.name);
            add(case, None, all, format!("{}; CPU time", mote.note));
        }
    }
    Ok(())
}

/// Checks the goals of antedating.
pub(super) fn goals(report: &mut Report, motes: &[Mote; 3]) -> Result<(), ExperimentError> {
    let [software, engine, cortex_m3] = motes;
    let sparse = |mote: &Mote, size: usize, new: usize| -> Result<(&str, f64), ExperimentError> {
        let mut best = ("none", f64::INFINITY);
        for (cipher, what, counts) in
            [("GCM", "gcm", &mote.counts.gcm), ("ChaCha20-Poly1305", "chacha", &mote.counts.chacha)]
        {
            if let Some(counts) = counts {
                let ms = counts(&format!("{what}-{size}-{new}-template-online"))? / mote.counts_per_ms;
                if ms < best.1 {
                    best = (cipher, ms);
                }
            }
        }
        Ok(best)
    };
    for (name, bound, sizes) in [
        ("factory maintenance", 20.0, &[200, 300, 1000, 1500, LAST][..]),
        ("smart grid", 8.0, &[200, 1000, LAST]),
        ("augmented reality", 10.0, &[200, 1000, 1500]),
    ] {
        let mut worst = ("", 0.0f64);
        for size in sizes {
            let found = sparse(software, *size, 32)?;
            if found.1 > worst.1 {
                worst = found;
            }
        }
        let most = sizes.last().copied().unwrap_or_default();
        report.check(
            format!(
                "MSP430: {name}: {most} B with 32 new ones by {} in {:.2} ms, at most {bound}",
                worst.0, worst.1
            ),
            worst.1 <= bound,
        );
    }
    // 16 bytes are known, 14 are new. A serial MAC needs one block of AES behind the data, which
    // takes 0.24 ms on the paper's engine. A polynomial MAC needs none, on the same CPU and with
    // the same record length.
    let chacha = software.counts.chacha.as_ref().ok_or("ChaCha20-Poly1305 was not counted")?;
    let polynomial = chacha("chacha-30-14-template-online")? / software.counts_per_ms;
    for mote in [software, engine] {
        let serial = mote.ms("scenario-30-16-front-online")?;
        for (cipher, ms) in [("CCM_8", serial), ("ChaCha20-Poly1305", polynomial)] {
            let case = format!("printing, 30 B with 14 new, {}: {cipher}", mote.name);
            let row = Row::new(case, "time left of 2 ms", "ms").paper(1.63).antedated(2.0 - ms);
            report.row(row.baseline(2.0 - mote.ms("scenario-30-seal")?).note(mote.note));
        }
        let (cipher, ms) =
            if serial <= polynomial { ("CCM_8", serial) } else { ("ChaCha20-Poly1305", polynomial) };
        report.check(
            format!(
                "{}: printing: {:.2} ms left of 2 ms with a template of 16 B by {cipher}, at least 1.8",
                mote.name,
                2.0 - ms
            ),
            2.0 - ms >= 1.8,
        );
    }
    let worst = |mote: &Mote, way: Way| -> Result<f64, ExperimentError> {
        let mut worst = 0.0f64;
        for size in [20, 30, 32, 48, 50] {
            // A template must be shorter than the packet; such a packet has a shorter one.
            let way = if way.count(size).is_some() { way } else { Way::Template(16) };
            if let Some(name) = way.count(size) {
                worst = worst.max(mote.ms(&name)?);
            }
        }
        Ok(worst)
    };
    for (mote, way, says) in [
        (cortex_m3, Way::Antedated, "without a template"),
        (software, Way::Template(32), "with a template of at most 32 B"),
        (engine, Way::Template(32), "with a template of at most 32 B"),
    ] {
        let found = worst(mote, way)?;
        report.check(
            format!("{}: production lines: 20 to 50 B {says} in {found:.2} ms, at most 1", mote.name),
            found <= 1.0,
        );
    }
    Ok(())
}
