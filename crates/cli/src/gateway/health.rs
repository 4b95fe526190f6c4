//! `antedate gateway status --check`: one line and the exit status that monitoring systems expect of
//! a plugin (Monitoring Plugins Development Guidelines): 0 OK, 1 WARNING, 2 CRITICAL.

use std::fmt::Write;

use antedate_gateway::run::status::Status;

/// The state of a gateway, better ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Ok,
    Warning,
    Critical,
}

impl Level {
    /// The exit status.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

/// The line of a gateway that does not answer.
pub(crate) fn silent(why: &str) -> (Level, String) {
    (Level::Critical, format!("ANTEDATE CRITICAL - {}\n", one_line(why)))
}

/// The level of a gateway, and the line with its figures.
pub(crate) fn of(status: &Status) -> (Level, String) {
    let mut found = Vec::new();
    let mut say = |level, what: String| found.push((level, what));
    if !status.forwarding {
        say(Level::Critical, "the forwarding threads do not answer".into());
    }
    for (name, port) in [("field", &status.field), ("uplink", &status.uplink)] {
        if !port.link {
            say(Level::Critical, format!("{name} {} has no link", port.interface));
        }
    }
    let (mut members, mut of) = (0, None);
    if let Some(macsec) = &status.macsec {
        if status.forwarding && macsec.encoding_sa.is_none() {
            say(Level::Critical, "no key: nothing passes".into());
        }
        if let Some(agreement) = &macsec.agreement {
            members = agreement.members.iter().filter(|member| member.live).count();
            if members == 0 {
                say(Level::Critical, "no other member".into());
            }
        }
    }
    if let Some(overlay) = &status.overlay {
        members = overlay.peers.iter().filter(|peer| peer.session).count();
        of = Some(overlay.peers.len());
        if members == 0 && !overlay.peers.is_empty() {
            say(Level::Critical, "no session with any peer".into());
        } else {
            for peer in overlay.peers.iter().filter(|peer| !peer.session) {
                say(Level::Warning, format!("no session with {}", peer.name));
            }
        }
        if let Some(second) = overlay.second_uplink.as_ref().filter(|second| !second.link) {
            say(Level::Warning, format!("second uplink {} has no link", second.interface));
        }
    }
    if status.protection == "none" {
        say(Level::Warning, "nothing is protected".into());
    }
    for warning in status.warnings.iter().filter(|warning| !warning.notice) {
        say(Level::Warning, warning.what.clone());
    }
    let level = found.iter().map(|(level, _)| *level).max().unwrap_or(Level::Ok);
    found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let what: Vec<String> = found.into_iter().map(|(_, what)| what).collect();
    let what = if what.is_empty() { good(status, members, of) } else { what.join("; ") };
    // `c` marks counters. A bar would begin the figures.
    let mut line = format!("ANTEDATE {} - {}", level.name(), one_line(&what));
    let refused = |refused: &std::collections::BTreeMap<String, u64>| refused.values().sum::<u64>();
    let _ = writeln!(
        line,
        " | out={}c in={}c out_refused={}c in_refused={}c members={members} warnings={}",
        status.out.forwarded_frames,
        status.inward.forwarded_frames,
        refused(&status.out.refused),
        refused(&status.inward.refused),
        status.warnings.len()
    );
    (level, line)
}

fn good(status: &Status, members: usize, of: Option<usize>) -> String {
    match (&status.macsec, of) {
        (Some(macsec), _) if macsec.agreement.is_some() => {
            format!("MACsec, {}, members here and there: {}", macsec.suite, members + 1)
        }
        (Some(macsec), _) => format!("MACsec, {}, static keys", macsec.suite),
        (None, Some(of)) => format!("overlay, sessions with {members} of {of} peers"),
        (None, None) => "forwarding".into(),
    }
}

fn one_line(text: &str) -> String {
    text.replace('|', "/").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use antedate_gateway::run::status::{Agreement, AgreementMember, Macsec, Overlay, OverlayPeer, Warning};

    use super::*;

    fn up() -> Status {
        let mut status = Status { forwarding: true, protection: "macsec".into(), ..Status::default() };
        (status.field.link, status.uplink.link) = (true, true);
        status
    }

    fn agreed(live: bool, key: Option<u8>) -> Status {
        let member = AgreementMember { live, ..AgreementMember::default() };
        let agreement = Agreement { members: vec![member], ..Agreement::default() };
        let macsec = Macsec { agreement: Some(agreement), encoding_sa: key, ..Macsec::default() };
        Status { macsec: Some(macsec), ..up() }
    }

    #[test]
    fn keyed_gateway_is_ok() {
        let (level, line) = of(&agreed(true, Some(0)));
        assert_eq!((level, level.code()), (Level::Ok, 0));
        assert!(line.starts_with("ANTEDATE OK - MACsec") && line.contains(" | out=0c in=0c"), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn missing_parts_are_critical() {
        let mut cases = vec![agreed(false, Some(0)), agreed(true, None)];
        cases.push(Status { forwarding: false, ..agreed(true, Some(0)) });
        let mut unplugged = agreed(true, Some(0));
        unplugged.uplink.link = false;
        cases.push(unplugged);
        let overlay = Overlay { peers: vec![OverlayPeer::default()], ..Overlay::default() };
        cases.push(Status { overlay: Some(overlay), ..up() });
        for status in cases {
            let (level, line) = of(&status);
            assert_eq!(level.code(), 2, "{line}");
            assert!(line.starts_with("ANTEDATE CRITICAL - "), "{line}");
        }
        assert_eq!(silent("no gateway\nanswers").1, "ANTEDATE CRITICAL - no gateway answers\n");
    }

    #[test]
    fn lasting_conditions_are_warnings() {
        let mut status = agreed(true, Some(0));
        status.warnings.push(Warning { what: "a|b".into(), notice: true, ..Warning::default() });
        assert_eq!(of(&status).0, Level::Ok, "a notice");
        status.warnings.push(Warning { what: "c|d".into(), ..Warning::default() });
        let (level, line) = of(&status);
        assert_eq!(level.code(), 1);
        assert!(line.starts_with("ANTEDATE WARNING - c/d | "), "{line}");
        let peer = |session| OverlayPeer { session, name: "hall".into(), ..OverlayPeer::default() };
        let overlay = Overlay { peers: vec![peer(true), peer(false)], ..Overlay::default() };
        let (level, line) = of(&Status { overlay: Some(overlay), ..up() });
        assert_eq!((level, line.contains("no session with hall")), (Level::Warning, true));
    }
}
