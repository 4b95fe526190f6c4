//! The page: one file without a network, in light and dark colours, for screens, paper and readers
//! that speak.

use std::fmt::{Arguments, Write};

use antedate_figure::axis::number;
use antedate_figure::escaped;

use super::Document;
use super::figures::Figure;
use super::join::Comparison;
use super::printed::{Claim, Paper};
use super::results;
use super::verdict::Verdict;

const STYLE: &str = include_str!("page.css");

/// The begin of a page, by which an earlier one is known.
pub const BEGIN: &str =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>Antedate: report";

/// A page under construction.
struct Page(String);

impl Page {
    fn put(&mut self, text: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
        self.0.push('\n');
    }

    /// Opens a table that scrolls by itself, and writes its head. It lies in a region that the
    /// keyboard reaches.
    fn table(&mut self, caption: &str, columns: &[&str]) {
        let caption = escaped(caption);
        self.put(format_args!(
            "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table><caption>{caption}</caption>\n<thead><tr>"
        ));
        for column in columns {
            self.put(format_args!("<th scope=\"col\">{}</th>", escaped(column)));
        }
        self.put(format_args!("</tr></thead><tbody>"));
    }

    fn end_table(&mut self) {
        self.put(format_args!("</tbody></table></div>"));
    }
}

/// The whole page.
pub(super) fn page(papers: &[Paper], document: &Document, figures: &[Figure]) -> String {
    let mut page = Page(String::new());
    let short = if document.quick { ", with short runs" } else { "" };
    page.put(format_args!(
        "{BEGIN}{short}</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style></head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the results</a>"
    ));
    header(&mut page, document);
    page.put(format_args!(
        "<nav aria-label=\"Parts of the report\"><ul>\n<li><a href=\"#all\">All papers</a></li>"
    ));
    for paper in papers {
        page.put(format_args!("<li><a href=\"#{0}\">{0}</a></li>", escaped(&paper.name)));
    }
    page.put(format_args!(
        "<li><a href=\"#own\">Figures of our own</a></li>\n<li><a href=\"#models\">Models</a></li>\n\
         <li><a href=\"#results\">Results and how to repeat them</a></li>\n</ul></nav>\n<main id=\"main\">"
    ));
    overview(&mut page, papers, document);
    for paper in papers {
        section(&mut page, paper, document, figures);
    }
    own(&mut page, figures);
    models(&mut page, document);
    sources(&mut page, document);
    page.put(format_args!(
        "</main>\n<footer><p>Written by <code>antedate report</code> {}. The same rows for programs: \
         <a href=\"report.json\">report.json</a>.</p></footer>\n</body></html>",
        escaped(document.antedate)
    ));
    page.0
}

fn header(page: &mut Page, document: &Document) {
    let machine = &document.machine;
    page.put(format_args!(
        "<header><h1>Five papers, number by number</h1>\n\
         <p>Antedate encrypts and authenticates industrial packets. It does most of a cipher's work before a packet's data \
         exists: the packet is then <em>antedated</em>, and less is left to do at its deadline. Five papers on such systems \
         printed numbers. This page sets each of them beside ours.</p>\n\
         <p>Made {} by Antedate {} (build {}) on {}, {} cores, Linux {}, at a load of {}.</p>",
        escaped(&document.made),
        escaped(document.antedate),
        escaped(&document.program),
        escaped(&machine.cpu),
        machine.cores,
        escaped(&machine.kernel),
        escaped(machine.load.split(' ').next().unwrap_or_default())
    ));
    if document.quick {
        page.put(format_args!(
            "<p class=\"warn\"><strong>Short runs are among these results.</strong> They show that all works; their times \
             are no measurement.</p>"
        ));
    }
    page.put(format_args!("</header>"));
}

/// Numbers of rows by verdict.
fn counts(rows: &[&Comparison]) -> [usize; 5] {
    Verdict::ALL.map(|verdict| rows.iter().filter(|row| row.verdict == verdict).count())
}

fn of<'a>(paper: &Paper, document: &'a Document) -> Vec<&'a Comparison> {
    document.rows.iter().filter(|row| row.paper == paper.name).collect()
}

fn overview(page: &mut Page, papers: &[Paper], document: &Document) {
    page.put(format_args!(
        "<section id=\"all\" aria-labelledby=\"all-h\"><h2 id=\"all-h\">All papers</h2>\n\
         <p>A row stands for each number that a paper printed. It is <em>reproduced</em> if ours is at most 5 % from it, \
         <em>surpassed</em> if ours is better by more, <em>not reached</em> if it is worse by more. \
         <em>Not comparable</em> and <em>not measured</em> have their reasons.</p>\n\
         <p>In the tables, <em>paper</em> is the printed number, <em>baseline</em> the unmodified processing on this machine, \
         and <em>ours</em> Antedate. <em>Nature</em> tells where ours comes from: <em>executed</em> here, counted on an \
         <em>emulated</em> CPU, <em>modelled</em> from other numbers, or computed with figures of a <em>datasheet</em>.</p>"
    ));
    let mut columns = vec!["paper"];
    columns.extend(Verdict::ALL.map(Verdict::text));
    columns.push("rows");
    page.table("Rows by verdict", &columns);
    for paper in papers {
        let rows = of(paper, document);
        page.put(format_args!("<tr><th scope=\"row\"><a href=\"#{0}\">{0}</a></th>", escaped(&paper.name)));
        for count in counts(&rows) {
            page.put(format_args!("<td class=\"n\">{count}</td>"));
        }
        page.put(format_args!("<td class=\"n\">{}</td></tr>", rows.len()));
    }
    page.end_table();
    let unused: Vec<_> = document.results.iter().filter(|source| !source.state.is_taken()).collect();
    if !unused.is_empty() || !document.not_drawn.is_empty() {
        page.put(format_args!("<p class=\"warn\"><strong>What is not shown:</strong></p><ul>"));
        for source in unused {
            page.put(format_args!(
                "<li>{}: {}</li>",
                escaped(&source.experiment),
                escaped(&source.state.text())
            ));
        }
        for figure in &document.not_drawn {
            page.put(format_args!("<li>Figure {}</li>", escaped(figure)));
        }
        page.put(format_args!("</ul>"));
    }
    page.put(format_args!("</section>"));
}

/// What the rows say about a claim: the worst verdict that any has, and how many have which.
pub(super) fn judged(claim: &Claim, rows: &[&Comparison]) -> (Verdict, String) {
    let decides = |row: &&&Comparison| {
        claim.items.iter().any(|item| row.item.starts_with(item.as_str())) && row.case.contains(&claim.case)
    };
    let rows: Vec<&Comparison> = rows.iter().filter(decides).copied().collect();
    let count = counts(&rows);
    let [surpassed, reproduced, not_reached, not_comparable, not_measured] = count;
    let verdict = if not_reached > 0 {
        Verdict::NotReached
    } else if surpassed > 0 && reproduced == 0 {
        Verdict::Surpassed
    } else if surpassed + reproduced > 0 {
        Verdict::Reproduced
    } else if not_comparable >= not_measured {
        Verdict::NotComparable
    } else {
        Verdict::NotMeasured
    };
    let parts: Vec<String> = Verdict::ALL
        .iter()
        .zip(count)
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("{count} {}", verdict.text()))
        .collect();
    let mut text = match rows.len() {
        1 => format!("1 row: {}", parts.join(", ")),
        many => format!("{many} rows: {}", parts.join(", ")),
    };
    let worst = rows.iter().filter(|row| row.verdict == verdict && verdict != Verdict::Reproduced);
    if let Some(row) = worst.clone().next().filter(|_| verdict != Verdict::Surpassed) {
        text = format!(
            "{text}. The first that is {}: {}, {}, {}",
            verdict.text(),
            row.case,
            row.metric,
            row.reason
        );
    }
    (verdict, text)
}

/// A verdict's class, which sets its colour beside its word.
const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Surpassed => "v best",
        Verdict::Reproduced => "v good",
        Verdict::NotReached => "v bad",
        Verdict::NotComparable | Verdict::NotMeasured => "v none",
    }
}

fn section(page: &mut Page, paper: &Paper, document: &Document, figures: &[Figure]) {
    let name = escaped(&paper.name);
    let rows = of(paper, document);
    page.put(format_args!(
        "<section id=\"{name}\" aria-labelledby=\"{name}-h\"><h2 id=\"{name}-h\">{name}</h2>\n\
         <p>{}: <cite>{}</cite>.</p>\n<p>{}</p>\n<h3>Claims</h3>\n<ul class=\"claims\">",
        escaped(&paper.authors),
        escaped(&paper.title),
        escaped(&paper.machine)
    ));
    for claim in &paper.claims {
        let (verdict, why) = judged(claim, &rows);
        page.put(format_args!(
            "<li>{} <span class=\"{}\">{}</span> <small>{}</small></li>",
            escaped(&claim.says),
            class(verdict),
            verdict.text(),
            escaped(&why)
        ));
    }
    page.put(format_args!("</ul>\n<h3>Figures</h3>"));
    for figure in figures.iter().filter(|figure| figure.paper == paper.name) {
        draw(page, figure);
    }
    page.put(format_args!("<h3>Every number</h3>"));
    let columns = [
        "where",
        "case",
        "quantity",
        "paper",
        "baseline",
        "ours",
        "verdict",
        "nature",
        "reason and conditions",
    ];
    page.table(&format!("Every number of {}", paper.name), &columns);
    for row in rows {
        line(page, row);
    }
    page.end_table();
    page.put(format_args!("</section>"));
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(
        || "<span class=\"none\" aria-label=\"none\">–</span>".into(),
        |value| escaped(&number(value)),
    )
}

fn line(page: &mut Page, row: &Comparison) {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" ({})", escaped(&row.unit)) };
    let mut why = escaped(&row.reason);
    if !row.note.is_empty() {
        let _ = write!(why, "<br><small>{}</small>", escaped(&row.note));
    }
    if let Some(check) = &row.check {
        let _ = write!(why, "<br><small>{}</small>", escaped(&check.text()));
    }
    page.put(format_args!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}{unit}<br><small>{}</small></td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td><span class=\"{}\">{}</span></td><td>{}</td><td class=\"why\">{why}</td></tr>",
        escaped(&row.item),
        escaped(&row.case),
        escaped(&row.metric),
        escaped(&row.statistic),
        row.paper_value.map_or_else(|| cell(None), |value| value.to_string()),
        cell(row.baseline),
        cell(row.ours),
        class(row.verdict),
        row.verdict.text(),
        row.label.text()
    ));
}

fn draw(page: &mut Page, figure: &Figure) {
    let name = escaped(&figure.name);
    // A figure keeps a size at which it can be read, and scrolls by itself.
    page.put(format_args!(
        "<figure><figcaption>{0} (<a href=\"{name}.svg\" aria-label=\"SVG: {0}\">SVG</a>, <a href=\"{name}.csv\" \
         aria-label=\"CSV: {0}\">CSV</a>)</figcaption>\n<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">{1}</div></figure>",
        escaped(&figure.title),
        figure.svg.trim_end()
    ));
}

fn own(page: &mut Page, figures: &[Figure]) {
    page.put(format_args!(
        "<section id=\"own\" aria-labelledby=\"own-h\"><h2 id=\"own-h\">Figures of our own</h2>"
    ));
    let mut any = false;
    for figure in figures.iter().filter(|figure| figure.paper.is_empty()) {
        draw(page, figure);
        any = true;
    }
    if !any {
        page.put(format_args!(
            "<p>None: they need the experiments <code>overlay-paths</code> and <code>aead</code>.</p>"
        ));
    }
    page.put(format_args!("</section>"));
}

fn models(page: &mut Page, document: &Document) {
    page.put(format_args!(
        "<section id=\"models\" aria-labelledby=\"models-h\"><h2 id=\"models-h\">Models</h2>\n\
         <p>A modelled number is checked against something executed. One that is off by more than 10 %, or has no check, \
         is marked here and in its row. Values fitted to a paper are inputs, and no evidence.</p>"
    ));
    let mut checks: Vec<(String, bool, usize)> = Vec::new();
    for check in document.rows.iter().filter_map(|row| row.check.as_ref()) {
        let text = check.text();
        match checks.iter_mut().find(|(other, ..)| *other == text) {
            Some((.., count)) => *count += 1,
            None => checks.push((text, check.holds(), 1)),
        }
    }
    if checks.is_empty() {
        page.put(format_args!("<p>No row here is modelled.</p></section>"));
        return;
    }
    page.table("Models and their checks", &["check", "within 10 %", "rows"]);
    for (text, holds, count) in checks {
        let class = if holds { class(Verdict::Reproduced) } else { class(Verdict::NotReached) };
        let word = if holds { "yes" } else { "no" };
        page.put(format_args!(
            "<tr><th scope=\"row\">{}</th><td><span class=\"{class}\">{word}</span></td><td class=\"n\">{count}</td></tr>",
            escaped(&text)
        ));
    }
    page.end_table();
    page.put(format_args!("</section>"));
}

fn sources(page: &mut Page, document: &Document) {
    page.put(format_args!(
        "<section id=\"results\" aria-labelledby=\"results-h\"><h2 id=\"results-h\">Results and how to repeat them</h2>\n\
         <p>Each experiment is repeated by its command. <code>antedate report --out DIR</code> runs those that are not in \
         <code>DIR/results</code>.</p>"
    ));
    let columns = ["experiment", "command", "state", "began", "seconds", "goals met"];
    page.table("Results of experiments", &columns);
    for source in &document.results {
        let name = escaped(&source.experiment);
        let command = escaped(&results::command(&source.experiment));
        let quick = if source.quick { " --quick" } else { "" };
        let state = match source.remark.as_str() {
            "" => source.state.text(),
            remark => format!("{}; {remark}", source.state.text()),
        };
        let [goals, met] = source.goals;
        page.put(format_args!(
            "<tr><th scope=\"row\">{name}</th><td><code>{command}{quick}</code></td><td>{}</td><td>{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{met} of {goals}</td></tr>",
            escaped(&state),
            escaped(&source.began),
            source.seconds
        ));
    }
    page.end_table();
    page.put(format_args!("</section>"));
}
