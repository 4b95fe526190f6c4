//! `antedate gateway key-status`.

use std::fmt::Write;
use std::path::PathBuf;

use antedate_gateway::run::control::{Request, ask};
use antedate_gateway::run::status::{Agreement, AgreementCak, AgreementMember, Overlay};
use antedate_host::fault::Fault;
use clap::Args;

use super::Running;
use crate::failure::Done;
use crate::output;

#[derive(Args)]
pub(crate) struct KeyStatus {
    #[command(flatten)]
    running: Running,
    /// Write the CAKs, or the peers of an overlay, as JSON to FILE, or to standard output without one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl KeyStatus {
    pub(crate) fn run(self) -> Done {
        let socket = &self.running.socket;
        let reply = ask(socket, Request::Status {})?;
        let Some(status) = reply.status else {
            return Err(Fault::of_file(socket, reply.message, reply.remedy).into());
        };
        if let Some(overlay) = status.overlay.filter(|overlay| !overlay.public_key.is_empty()) {
            return match self.json {
                Some(file) => output::json(&file, &overlay.peers),
                None => output::print(&tunnels(&overlay)),
            };
        }
        let Some(agreement) = status.macsec.and_then(|macsec| macsec.agreement) else {
            let remedy = "see `antedate gateway status` for static keys of MACsec";
            return Err(
                Fault::of_file(socket, "this gateway has no cak_file and no WireGuard", remedy).into()
            );
        };
        match self.json {
            Some(file) => output::json(&file, &agreement.caks),
            None => output::print(&page(&agreement)),
        }
    }
}

/// Our public key, those of the peers, and the conclusion.
fn tunnels(overlay: &Overlay) -> String {
    let mut text = format!("own public key: {}\n", overlay.public_key);
    let mut changing = Vec::new();
    for peer in &overlay.peers {
        let state = match (peer.session, peer.handshake_age_seconds) {
            (true, Some(age)) => format!("session, last handshake {age:.0} s ago"),
            (true, None) => "session".to_owned(),
            (false, _) => "no session".to_owned(),
        };
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}: {state}\n    uses {}", peer.name, peer.public_key);
        if !peer.other_public_key.is_empty() {
            _ = writeln!(text, "    also may use {}", peer.other_public_key);
            changing.push(peer.name.as_str());
        }
    }
    if !changing.is_empty() {
        _ = writeln!(
            text,
            "two public keys are allowed for {}: when a peer uses the new one, make it public_key and remove \
             next_public_key",
            changing.join(", ")
        );
    }
    text
}

/// The CAKs, their members and the conclusion.
fn page(agreement: &Agreement) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |value: String| _ = writeln!(text, "{value}");
    for cak in &agreement.caks {
        line(format!("CKN {}, priority {}: {}", cak.ckn, cak.priority, state(cak)));
        if !cak.fault.is_empty() {
            line(format!("    FAULT: {}", cak.fault));
        }
        if cak.members.is_empty() {
            line("    nobody is heard with it".to_owned());
        }
        for AgreementMember { sci, address, live, silent_seconds, .. } in &cak.members {
            let live = if *live { "live" } else { "heard" };
            line(format!("    {sci} at {address}: {live}, {silent_seconds:.1} s ago"));
        }
    }
    if let Some(conclusion) = conclusion(&agreement.caks) {
        line(conclusion);
    }
    text
}

fn state(cak: &AgreementCak) -> &'static str {
    match (cak.carries, cak.removed, cak.rests) {
        (true, false, _) => "carries",
        (true, true, _) => "carries, REMOVED from the file: it ends when another one carries",
        (false, true, _) => "ends, removed from the file",
        (false, false, true) => "rests",
        (false, false, false) => "does not carry",
    }
}

/// Whether the change of the CAK can be completed.
fn conclusion(caks: &[AgreementCak]) -> Option<String> {
    let mut listed = caks.iter().filter(|cak| !cak.removed);
    let preferred = listed.next()?;
    listed.next()?;
    let live = |cak: &AgreementCak, sci: &str| cak.members.iter().any(|m| m.live && m.sci == sci);
    let others = caks.iter().flat_map(|cak| cak.members.iter().map(move |member| (cak, member)));
    let lacking = others.filter(|(cak, member)| live(cak, &member.sci) && !live(preferred, &member.sci));
    let mut lacking: Vec<&str> = lacking.map(|(_, member)| member.sci.as_str()).collect();
    lacking.sort_unstable();
    lacking.dedup();
    Some(match (lacking.is_empty(), preferred.carries) {
        (true, true) => {
            "all members that are heard have the preferred CAK: if none is missing, the others can be removed"
                .to_owned()
        }
        (true, false) => "the preferred CAK does not carry yet".to_owned(),
        (false, _) => format!("not live with the preferred CAK: {}", lacking.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use antedate_gateway::run::status::OverlayPeer;

    use super::*;

    fn cak(ckn: &str, carries: bool, members: &[&str]) -> AgreementCak {
        let member =
            |sci: &&str| AgreementMember { sci: (*sci).to_owned(), live: true, ..AgreementMember::default() };
        AgreementCak {
            ckn: ckn.to_owned(),
            carries,
            rests: !carries,
            members: members.iter().map(member).collect(),
            ..AgreementCak::default()
        }
    }

    #[test]
    fn page_says_who_lacks_the_new_cak() {
        let caks = vec![cak("2e", false, &["A"]), cak("9a", true, &["A", "B"])];
        let text = page(&Agreement { caks, ..Agreement::default() });
        assert!(text.starts_with("CKN 2e, priority 0: rests\n    A at : live"), "{text}");
        assert!(text.contains("CKN 9a, priority 0: carries\n"), "{text}");
        assert!(text.ends_with("not live with the preferred CAK: B\n"), "{text}");
    }

    #[test]
    fn page_shows_both_keys_of_a_peer() {
        let peer = OverlayPeer {
            name: "yard".to_owned(),
            public_key: "NEW=".to_owned(),
            other_public_key: "OLD=".to_owned(),
            session: true,
            ..OverlayPeer::default()
        };
        let mut overlay = Overlay { public_key: "OWN=".to_owned(), peers: vec![peer], ..Overlay::default() };
        let text = tunnels(&overlay);
        assert!(
            text.starts_with("own public key: OWN=\nyard: session\n    uses NEW=\n    also may use OLD=\n")
        );
        assert!(text.contains("two public keys are allowed for yard:"), "{text}");
        overlay.peers[0].other_public_key.clear();
        assert!(!tunnels(&overlay).contains("two public keys"));
    }

    #[test]
    fn page_says_when_the_old_cak_can_go() {
        let caks = vec![cak("2e", true, &["A", "B"]), cak("9a", false, &["B"])];
        let text = page(&Agreement { caks, ..Agreement::default() });
        assert!(text.ends_with("the others can be removed\n"), "{text}");
        let text = page(&Agreement { caks: vec![cak("2e", true, &[])], ..Agreement::default() });
        assert_eq!(text, "CKN 2e, priority 0: carries\n    nobody is heard with it\n");
    }
}
