//! wpa_supplicant as one end of a change of the CAK. It has one CAK at a time, so the gateway has
//! both before wpa_supplicant is restarted with the new one.
//!
//! A host floods it with pings. All that are lost are adjacent: those while it was away.

use super::{CAK, CKN, HOST, PEER, PEER_MAC, context, ping, start, stop};
use crate::daemon::{Gateway, Options};
use crate::guest::Guest;
use crate::net;
use crate::place;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;
use xtask::shell::{Background, Run, until};

const NEW_CAK: &str = "2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e";
const NEW_CKN: &str = "6e6577";
/// Pings of the flood: some fifteen seconds.
const PINGS: u32 = 3000;

fn block(cak: &str, ckn: &str, priority: u8) -> String {
    format!("network={{\nmka_cak={cak}\nmka_ckn={ckn}\npriority={priority}\n}}\n")
}

/// Changes the CAK; the gateway or wpa_supplicant is the key server.
pub(super) fn run(guest: &mut Guest, ours: bool) -> Result<String, String> {
    let options = Options {
        cak: Some(block(CAK[0], CKN, 0)),
        macsec: format!("mka_priority = {}", if ours { 16 } else { 64 }),
        allow: vec!["arp", "ipv4"],
        ..Options::default()
    };
    let gateway = Gateway::start("gwa", &options)?;
    // Its address is searched neither before nor after its absence.
    let known = [PEER, "lladdr", &net::mac(PEER_MAC), "dev", "eth0", "nud", "permanent"];
    net::ip(&[&["-n", "host", "neigh", "replace"][..], &known].concat())?;
    let lost = change(guest, &gateway, if ours { 64 } else { 16 });
    let lost = lost.map_err(|e| context(e, guest, &gateway))?;
    net::ip(&["-n", "host", "neigh", "del", PEER, "dev", "eth0"])?;
    stop(guest)?;
    gateway.stop()?;
    let server = if ours { "a gateway" } else { "wpa_supplicant" };
    Ok(format!(
        "another CAK, {server} is the key server: {lost} of {PINGS} pings lost, all while it was away"
    ))
}

fn change(guest: &mut Guest, gateway: &Gateway, priority: u8) -> Result<usize, String> {
    start(guest, CAK[0], CKN, priority)?;
    until("a ping", 30.0, || ping("host", 1, "0.2").is_ok().then_some(()))?;
    let flood = flood(PINGS)?;
    sleep(Duration::from_secs(2));
    gateway.reload(&format!("{}{}", block(CAK[0], CKN, 0), block(NEW_CAK, NEW_CKN, 1)))?;
    sleep(Duration::from_secs(2));
    carries(gateway, CKN)?;
    stop(guest)?;
    start(guest, NEW_CAK, NEW_CKN, priority)?;
    let lost = lost(&flood.finish(60)?, PINGS);
    carries(gateway, NEW_CKN)?;
    let (Some(first), Some(last)) = (lost.first(), lost.last()) else {
        return Err("it was restarted, and no ping was lost".into());
    };
    if *last == PINGS || lost.len() != (last - first + 1) as usize {
        return Err(format!("pings were lost while it was there: {lost:?}"));
    }
    // The old one is removed: the change is complete.
    let after = self::flood(PINGS / 5)?;
    gateway.reload(&block(NEW_CAK, NEW_CKN, 1))?;
    let late = self::lost(&after.finish(60)?, PINGS / 5);
    if !late.is_empty() {
        return Err(format!("pings were lost when the old CAK was removed: {late:?}"));
    }
    guest.run(&format!("ping -q -n -c 3 -i 0.05 -W 2 {HOST}"))?;
    Ok(lost.len())
}

/// Pings with a line for each answer.
fn flood(count: u32) -> Result<Background, String> {
    let mut flood = net::inside("host", "ping");
    flood.args(["-n", "-i", "0.005", "-W", "2", "-c", &count.to_string(), PEER]);
    flood.background(&place::run()?.join("change.log"))
}

/// The numbers of pings without an answer.
fn lost(output: &str, count: u32) -> Vec<u32> {
    let answers = output.lines().filter(|line| line.contains(" bytes from "));
    let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
    let answered: BTreeSet<u32> = answers.filter_map(number).collect();
    (1..=count).filter(|number| !answered.contains(number)).collect()
}

fn carries(gateway: &Gateway, ckn: &str) -> Result<(), String> {
    let status = gateway.status()?;
    let caks = status["macsec"]["agreement"]["caks"].as_array().cloned().unwrap_or_default();
    let carrier = caks.iter().find(|cak| cak["carries"] == true).map(|cak| cak["ckn"].clone());
    if carrier.as_ref().is_some_and(|name| name == ckn) {
        return Ok(());
    }
    Err(format!("the CAK {ckn} should carry, and {carrier:?} does"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_pings_are_read() {
        let line = |number| format!("64 bytes from 10.9.0.1: icmp_seq={number} ttl=64 time=0.5 ms\n");
        let output = format!("PING\n{}From 10.9.0.2 icmp_seq=2 Destination\n{}", line(1), line(4));
        assert_eq!(lost(&output, 5), [2, 3, 5]);
    }
}
