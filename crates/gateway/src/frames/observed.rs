//! Frames that were seen, and the policy that passes them.
//!
//! Frames are grouped by the narrowest line of a policy that passes them, with the pairs of
//! stations, counts and times. Memory is bounded.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use antedate_wire::EthernetAddress;
use serde::Serialize;

use super::gate::narrowest::{Kind, Narrowest};
use super::gate::{Gate, Way};
use crate::config::policy::{MAX_RULES, Policy, Traffic};

/// The most pairs of stations of a line. More are counted together.
const MAX_PAIRS: usize = 256;
/// The most pairs in the comment of a line.
const SHOWN_PAIRS: usize = 4;

/// Groups frames.
#[derive(Debug)]
pub struct Observer {
    narrowest: Narrowest,
    /// The present policy.
    present: Gate,
    lines: BTreeMap<(Section, String), Line>,
    malformed: u64,
    beyond: u64,
}

/// The part of the policy that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Section {
    Allow,
    Rule,
}

/// A line of the policy, and the frames that it passes.
#[derive(Debug, Default, Serialize)]
struct Line {
    frames: u64,
    /// Those that the present policy refuses.
    refused: u64,
    out: u64,
    #[serde(rename = "in")]
    inward: u64,
    /// Seconds since the start of the observation.
    first_seconds: f64,
    last_seconds: f64,
    #[serde(serialize_with = "pairs")]
    pairs: BTreeMap<(EthernetAddress, EthernetAddress), u64>,
    frames_of_more_pairs: u64,
}

/// The result for programs.
#[derive(Debug, Serialize)]
struct Row<'a> {
    section: Section,
    /// The name in `allow`, or the conditions of the rule.
    line: &'a str,
    #[serde(flatten)]
    seen: &'a Line,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    lines: Vec<Row<'a>>,
    /// Frames that no policy passes.
    malformed: u64,
    /// Frames of lines beyond the most rules.
    beyond: u64,
    /// The policy as text.
    policy: String,
}

fn pairs<S: serde::Serializer>(
    pairs: &BTreeMap<(EthernetAddress, EthernetAddress), u64>,
    to: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Pair {
        source: String,
        destination: String,
        frames: u64,
    }
    let pair = |((source, destination), frames): (&(EthernetAddress, EthernetAddress), &u64)| Pair {
        source: source.to_string(),
        destination: destination.to_string(),
        frames: *frames,
    };
    to.collect_seq(pairs.iter().map(pair))
}

impl Observer {
    /// Observes beside this policy.
    #[must_use]
    pub fn new(present: &Policy) -> Self {
        Self {
            narrowest: Narrowest::default(),
            present: Gate::new(present),
            lines: BTreeMap::new(),
            malformed: 0,
            beyond: 0,
        }
    }

    /// Adds a frame, seen `at` seconds after the start. Without a way the direction is unknown.
    pub fn see(&mut self, way: Option<Way>, at: f64, frame: &[u8]) {
        let key = match self.narrowest.of(frame) {
            Kind::Named(traffic) => (Section::Allow, traffic.name().to_owned()),
            Kind::Rule(conditions) => (Section::Rule, conditions.to_string()),
            Kind::Nothing => {
                self.malformed += 1;
                return;
            }
        };
        if self.lines.len() >= MAX_RULES && !self.lines.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let new = Line { first_seconds: at, ..Line::default() };
        let line = self.lines.entry(key).or_insert(new);
        line.frames += 1;
        line.last_seconds = at;
        line.out += u64::from(way == Some(Way::Out));
        line.inward += u64::from(way == Some(Way::In));
        let passes = |way| self.present.decide(way, frame).passes;
        line.refused += u64::from(!way.map_or_else(|| passes(Way::Out) && passes(Way::In), passes));
        let address = |at: usize| frame.get(at..).and_then(<[u8]>::first_chunk).copied().map(EthernetAddress);
        let pair = (address(6).unwrap_or_default(), address(0).unwrap_or_default());
        if line.pairs.len() < MAX_PAIRS || line.pairs.contains_key(&pair) {
            *line.pairs.entry(pair).or_default() += 1;
        } else {
            line.frames_of_more_pairs += 1;
        }
    }

    /// The result for programs.
    #[must_use]
    pub fn report(&self) -> Report<'_> {
        let lines = self.lines.iter().map(|((section, line), seen)| Row { section: *section, line, seen });
        Report {
            lines: lines.collect(),
            malformed: self.malformed,
            beyond: self.beyond,
            policy: self.to_string(),
        }
    }
}

impl Line {
    /// The comment: times, ways, stations.
    fn comment(&self) -> String {
        let way = match (self.out, self.inward) {
            (0, 0) => "",
            (_, 0) => " out",
            (0, _) => " in",
            _ => " out and in",
        };
        let refused = match self.refused {
            0 => String::new(),
            all if all == self.frames => ", refused now".to_owned(),
            some => format!(", {some} refused now"),
        };
        let plural = if self.frames == 1 { "" } else { "s" };
        let mut text = format!(
            "{} frame{plural}{way}, {:.1} s to {:.1} s{refused}",
            self.frames, self.first_seconds, self.last_seconds
        );
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_by_key(|(_, frames)| std::cmp::Reverse(**frames));
        for ((from, to), frames) in pairs.iter().take(SHOWN_PAIRS) {
            // Writing to a string cannot fail.
            let _ = write!(text, "; {from} to {to}: {frames}");
        }
        if pairs.len() > SHOWN_PAIRS {
            let _ = write!(text, "; {} more pairs", pairs.len() - SHOWN_PAIRS);
        }
        text
    }

    fn direction(&self) -> &'static str {
        match (self.out, self.inward) {
            (1.., 0) => "direction = \"out\"\n",
            (0, 1..) => "direction = \"in\"\n",
            _ => "",
        }
    }
}

/// The policy that passes what was seen, as a section of a configuration.
impl fmt::Display for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |wanted: Section| self.lines.iter().filter(move |((section, _), _)| *section == wanted);
        writeln!(f, "[policy]\nallow = [")?;
        for ((_, name), line) in of(Section::Allow) {
            writeln!(f, "    # {}\n    \"{name}\",", line.comment())?;
            if *name == Traffic::ProfinetDcpSetName.name() {
                writeln!(f, "    # It renames devices: remove the line above when all have their names.")?;
            }
        }
        let (mut names, set) =
            (of(Section::Allow).map(|((_, name), _)| name), Traffic::ProfinetDcpSetName.name());
        if names.any(|name| name.starts_with("profinet"))
            && !self.lines.contains_key(&(Section::Allow, set.to_owned()))
        {
            writeln!(
                f,
                "    # No device was given a name. One fresh from the factory needs:\n    # \"{set}\","
            )?;
        }
        writeln!(f, "]")?;
        for ((_, conditions), line) in of(Section::Rule) {
            let keys = split(conditions).join("\n");
            let direction = line.direction();
            writeln!(f, "\n# {}\n[[policy.rule]]\naction = \"allow\"\n{direction}{keys}", line.comment())?;
        }
        if self.malformed > 0 {
            writeln!(f, "\n# {} malformed frames, which no policy passes", self.malformed)?;
        }
        if self.beyond > 0 {
            writeln!(
                f,
                "\n# {} frames of further kinds: a policy has at most {MAX_RULES} rules",
                self.beyond
            )?;
        }
        Ok(())
    }
}

/// The keys of the text of conditions.
fn split(conditions: &str) -> Vec<&str> {
    let (mut keys, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, letter) in conditions.char_indices() {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        if letter == ',' && depth == 0 {
            keys.push(conditions[start..at].trim());
            start = at + 1;
        }
    }
    keys.push(conditions[start..].trim());
    keys
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    const REST: &str =
        "[field]\ninterface = \"f\"\n[uplink]\ninterface = \"u\"\n[macsec]\nkey_file = \"k\"\n";

    fn frame(source: u8, ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, source];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn udp(from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat());
        frame(1, 0x0800, &packet)
    }

    /// Frames of many kinds.
    fn frames() -> Vec<Vec<u8>> {
        let mut later = udp(9, 9);
        later[21] = 1;
        let mut icmp = udp(9, 9);
        icmp[23] = 1;
        let mut igmp = udp(9, 9);
        igmp[23] = 2;
        let tagged = [&frame(1, 0x8100, &[0xc0, 0, 0x88, 0x92, 0x80, 1])[..]].concat();
        vec![
            frame(1, 0x8892, &[0x80, 1]),
            frame(1, 0x8892, &[0x01, 0]),
            frame(1, 0x8892, &[0xfe, 0xfd, 4, 0]),
            frame(1, 0x8892, &[0xfe, 0xfd, 9, 0]),
            frame(1, 0x0806, &[]),
            frame(1, 0x88f5, &[]),
            frame(1, 0x22f0, &[]),
            frame(1, 0x0026, &[0x42, 0x42, 3]),
            frame(1, 0x0026, &[0xfe, 0xfe, 3]),
            frame(1, 0x0060, &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0]),
            udp(49152, 161),
            udp(161, 49152),
            udp(4840, 50000),
            later,
            icmp,
            igmp,
            tagged,
        ]
    }

    #[test]
    fn printed_policy_passes_what_was_seen() {
        for way in [Some(Way::Out), Some(Way::In), None] {
            let mut observer = Observer::new(&Policy::default());
            for frame in frames() {
                observer.see(way, 0.5, &frame);
            }
            let text = format!("{REST}{observer}");
            let config =
                Config::parse(Path::new("g.toml"), &text).unwrap_or_else(|all| panic!("{all}\n{text}"));
            let gate = Gate::new(&config.policy);
            for frame in frames() {
                let passes = [Way::Out, Way::In].map(|way| gate.decide(way, &frame).passes);
                assert!(passes[usize::from(way == Some(Way::In))], "{frame:02x?}\n{text}");
            }
            // Nothing else of these protocols.
            for other in [udp(49152, 162), frame(1, 0x88f6, &[]), frame(1, 0x8892, &[0xfe, 0xfe, 5])] {
                assert!(!gate.decide(Way::Out, &other).passes && !gate.decide(Way::In, &other).passes);
            }
        }
    }

    #[test]
    fn lines_tell_who_spoke_to_whom() {
        let mut observer = Observer::new(&Policy { allow: vec![Traffic::Lldp], ..Policy::default() });
        observer.see(Some(Way::Out), 0.0, &frame(1, 0x8892, &[0x80, 1]));
        observer.see(Some(Way::Out), 1.0, &frame(1, 0x8892, &[0x80, 1]));
        observer.see(Some(Way::In), 2.25, &frame(2, 0x8892, &[0x80, 1]));
        observer.see(Some(Way::Out), 2.0, &frame(1, 0x88f5, &[]));
        observer.see(Some(Way::In), 3.0, &frame(1, 0x88cc, &[]));
        observer.see(Some(Way::In), 3.0, &[0; 5]);
        assert_eq!(
            observer.to_string(),
            "[policy]\n\
             allow = [\n    \
             # 1 frame in, 3.0 s to 3.0 s; 02:00:00:00:00:01 to 02:00:00:00:00:09: 1\n    \
             \"lldp\",\n    \
             # 3 frames out and in, 0.0 s to 2.2 s, refused now; 02:00:00:00:00:01 to 02:00:00:00:00:09: 2; \
             02:00:00:00:00:02 to 02:00:00:00:00:09: 1\n    \
             \"profinet-rt\",\n    \
             # No device was given a name. One fresh from the factory needs:\n    \
             # \"profinet-dcp-set-name\",\n\
             ]\n\n\
             # 1 frame out, 2.0 s to 2.0 s, refused now; 02:00:00:00:00:01 to 02:00:00:00:00:09: 1\n\
             [[policy.rule]]\naction = \"allow\"\ndirection = \"out\"\nethertype = 0x88f5\n\n\
             # 1 malformed frames, which no policy passes\n"
        );
        let json = serde_json::to_value(observer.report()).unwrap();
        assert_eq!(json["lines"][1]["line"], "profinet-rt");
        assert_eq!(json["lines"][1]["pairs"][0]["source"], "02:00:00:00:00:01");
        assert_eq!((&json["lines"][1]["out"], &json["lines"][1]["in"]), (&2.into(), &1.into()));
        assert_eq!(json["malformed"], 1);
    }

    #[test]
    fn setting_names_is_told() {
        let mut observer = Observer::new(&Policy::default());
        // DCP Set: service, transaction, length, and one block: option, length, qualifier, name.
        let set = [0xfe, 0xfd, 4, 0, 0, 0, 0, 1, 0, 0, 0, 8, 2, 2, 0, 4, 0, 1, b'i', b'o'];
        observer.see(Some(Way::Out), 0.0, &frame(1, 0x8892, &set));
        let text = observer.to_string();
        assert!(text.contains("\"profinet-dcp-set-name\",\n    # It renames devices: remove"), "{text}");
        assert!(!text.contains("No device was given a name"), "{text}");
        let mut other = Observer::new(&Policy::default());
        other.see(Some(Way::Out), 0.0, &frame(1, 0x88b8, &[]));
        assert!(!other.to_string().contains("device"), "{other}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut observer = Observer::new(&Policy::default());
        for number in 0..2000u16 {
            let mut seen = frame(1, 0x9800 + number, &[]);
            observer.see(None, 0.0, &seen);
            seen[12..14].copy_from_slice(&[0x88, 0xcc]);
            seen[10..12].copy_from_slice(&number.to_be_bytes());
            observer.see(None, 0.0, &seen);
        }
        assert_eq!((observer.lines.len(), observer.beyond), (MAX_RULES, 2000 - (MAX_RULES as u64 - 1)));
        let lldp = &observer.lines[&(Section::Allow, "lldp".to_owned())];
        assert_eq!((lldp.pairs.len(), lldp.frames_of_more_pairs), (MAX_PAIRS, 2000 - MAX_PAIRS as u64));
    }
}
