//! The page: devices by cells, versions, key ages and pending approvals.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::View;
use crate::fleet::show::Row;

/// Its style, in a document of its own: the page permits nothing inside.
pub(super) const STYLE: &str = "\
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 1.5rem auto; max-width: 78rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
h2 small { font-weight: normal; opacity: .7; }
.map { display: grid; gap: .5rem; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }
.device { border: 1px solid #8886; border-left: .5rem solid #888; border-radius: .3rem; padding: .4rem .6rem; }
.device small { display: block; opacity: .75; overflow-wrap: anywhere; }
.ok { border-left-color: #2a8a3e; } .warning, .behind { border-left-color: #c98a00; }
.critical, .absent, .refused { border-left-color: #c62828; } .silent, .never { border-left-color: #777; }
.trouble { border: 1px solid #c62828; border-radius: .3rem; padding: .5rem .7rem; }
table { border-collapse: collapse; } td, th { padding: .15rem 1rem .15rem 0; text-align: left; }
code { font-size: .9em; overflow-wrap: anywhere; }
";

/// Text in HTML.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '<' | '>' | '&' | '"' | '\'') {
            // Writing to a string cannot fail, here and below.
            let _ = write!(out, "&#{};", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

/// A time in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

pub(super) fn html(view: &View) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"10\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title>\
         <link rel=\"stylesheet\" href=\"/fleet.css\"></head><body>\n<h1>{0}: {1} of {2} devices are well</h1>\n",
        plain(&view.fleet),
        view.rows.iter().filter(|row| row.state == "ok").count(),
        view.rows.len()
    );
    if !view.trouble.is_empty() {
        let _ = writeln!(text, "<p class=\"trouble\">What follows is old: {}</p>", plain(&view.trouble));
    }
    if !view.pending.is_empty() {
        text.push_str("<h2>Ask for membership</h2>\n<table><tr><th>code<th>proposes<th>fingerprint</tr>\n");
        for request in &view.pending {
            let _ = writeln!(
                text,
                "<tr><td><code>{}</code><td>{}<td><code>{}</code></tr>",
                request.keys.code(),
                plain(&request.name),
                request.keys.fingerprint()
            );
        }
        text.push_str(
            "</table>\n<p>Compare the code with the device's: <code>antedate fleet enrol CODE</code></p>\n",
        );
    }
    for (cell, key) in &view.cells {
        let of_cell: Vec<&Row> = view.rows.iter().filter(|row| row.cell == *cell).collect();
        let (name, key) = match cell.as_str() {
            "" => ("no cell", String::new()),
            name => (name, format!(", CAK of {}", age(*key))),
        };
        let _ = writeln!(
            text,
            "<h2>{} <small>{} device(s){key}</small></h2>\n<div class=\"map\">",
            plain(name),
            of_cell.len()
        );
        for row in of_cell {
            let _ = writeln!(
                text,
                "<div class=\"device {0}\"><b>{1}</b> {0}<small>{2}, settings {3}, {4} ago</small><small>{5}</small></div>",
                row.state,
                plain(&row.name),
                plain(&row.role),
                row.settings,
                age(row.seconds),
                plain(&row.what)
            );
        }
        text.push_str("</div>\n");
    }
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for row in view.rows.iter().filter(|row| !row.antedate.is_empty()) {
        *versions.entry(&row.antedate).or_default() += 1;
    }
    text.push_str("<h2>Versions</h2>\n<table>");
    for (version, count) in versions {
        let _ = writeln!(text, "<tr><td>{}<td>{count}</tr>", plain(version));
    }
    text.push_str("</table>\n</body></html>\n");
    text
}
