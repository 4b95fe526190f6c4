//! The live view on a terminal: a few lines, redrawn in place.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::gateway::Refused;
use super::plant::Plant;
use super::{Options, Secure};
use crate::screen::Screen;
use crate::station::meter::Live;

const REDRAW: Duration = Duration::from_millis(200);
/// A request interrupts the gateway's threads, so it is rare.
const ASK: Duration = Duration::from_secs(1);

/// Draws on a terminal, otherwise does nothing.
#[derive(Debug)]
pub(super) struct View {
    live: bool,
    title: String,
    began: Instant,
    drawn: Option<Instant>,
    asked: Option<Instant>,
    refused: Refused,
    screen: Screen,
}

impl View {
    pub(super) fn new(options: &Options) -> Self {
        let secure = match options.secure {
            Secure::Macsec => "MACsec",
            Secure::None => "NOT PROTECTED",
            Secure::Overlay => "VXLAN in WireGuard",
            Secure::Bridge => "plain bridges, NOT PROTECTED",
        };
        let cycle = f64::from(options.cycle_us) / 1e3;
        Self {
            live: options.live,
            title: format!("{secure}, cycle {cycle:.3} ms, frames of {} bytes", options.frame_bytes),
            began: Instant::now(),
            drawn: None,
            asked: None,
            refused: Refused::new(),
            screen: Screen::default(),
        }
    }

    /// Draws the present state when it is due.
    pub(super) fn draw(&mut self, plant: &Plant, phase: &str) {
        if !self.live || self.drawn.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        if self.asked.is_none_or(|at| at.elapsed() >= ASK) {
            self.asked = Some(Instant::now());
            self.refused = Refused::new();
            for gateway in &plant.gateways {
                super::gateway::add(&mut self.refused, &gateway.refused());
            }
        }
        let text = self.text(plant, phase);
        // Without a terminal the demonstration goes on.
        let _ = self.screen.draw(&text);
    }

    fn text(&self, plant: &Plant, phase: &str) -> String {
        let mut text = String::new();
        let seconds = self.began.elapsed().as_secs_f64();
        let _ = writeln!(text, "{}   {seconds:6.1} s   {phase}", self.title);
        let _ = writeln!(
            text,
            "{:10} {:>9} {:>8} {:>10} {:>13} {:>9} {:>9} {:>14} {:>9}",
            "", "frames", "missed", "bus errors", "interval now", "p99", "max", "round trip p50", "p99"
        );
        for (name, live) in [("PLC", &plant.plc.live), ("IO device", &plant.device.live)] {
            text.push_str(&station(name, live));
        }
        let refused: Vec<_> = self.refused.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        let refused = if refused.is_empty() { "nothing".to_owned() } else { refused.join(", ") };
        let _ = writeln!(text, "refused    {}", clip(&refused, 100));
        let seen = &plant.seen;
        let _ = writeln!(
            text,
            "attacker   {} frames, {} readable, {:.2} bits of entropy per byte, packet numbers spent twice: {}",
            seen.counts.frames, seen.counts.plaintext_frames, seen.entropy_bits_per_octet, seen.nonces.reused
        );
        let _ = writeln!(text, "  sees     {}", clip(&seen.example, 100));
        text
    }

    /// Keeps the last state on the screen.
    pub(super) fn finish(&mut self) {
        if self.live && !self.screen.is_empty() {
            println!();
        }
    }
}

fn station(name: &str, live: &Live) -> String {
    format!(
        "{name:10} {:>9} {:>8} {:>10} {:>10.1} µs {:>6.0} µs {:>6.0} µs {:>11.1} µs {:>6.1} µs\n",
        live.counts.received,
        live.counts.missed,
        live.counts.bus_errors,
        live.interval_us,
        live.interval_p99_us,
        live.interval_max_us,
        live.round_trip_p50_us,
        live.round_trip_p99_us
    )
}

fn clip(text: &str, width: usize) -> &str {
    text.char_indices().nth(width).map_or(text, |(end, _)| &text[..end])
}
