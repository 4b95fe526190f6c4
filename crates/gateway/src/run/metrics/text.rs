//! The text formats of metrics: OpenMetrics 1.0, and the older one of Prometheus (0.0.4), which
//! other programs read.

use std::fmt::Write as _;

/// A value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    /// A count since the start.
    Count(u64),
    /// A present value.
    Gauge(f64),
}

/// A sample: its labels and its value.
pub(super) type Sample = (Vec<(&'static str, String)>, Value);

/// A family of metrics of one name.
pub(super) struct Family {
    /// Its name, which ends with the unit if there is one.
    pub(super) name: &'static str,
    /// Its unit, or empty.
    pub(super) unit: &'static str,
    /// The text of its line `HELP`.
    pub(super) help: &'static str,
    /// Its samples, all counts or all gauges. Without any the family is left out.
    pub(super) samples: Vec<Sample>,
}

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// Its media type.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes the families.
pub(super) fn write(families: &[Family], format: Format) -> String {
    let mut text = String::with_capacity(16 * 1024);
    for Family { name, unit, help, samples } in families {
        let Some((_, first)) = samples.first() else { continue };
        let (kind, end) = match first {
            Value::Count(_) => ("counter", "_total"),
            Value::Gauge(_) => ("gauge", ""),
        };
        // OpenMetrics names the family, the older format its samples.
        let (modern, family_end) = match format {
            Format::OpenMetrics => (true, ""),
            Format::Prometheus => (false, end),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name}{family_end} {kind}");
        if modern && !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name}{family_end} {help}");
        for (labels, value) in samples {
            let _ = write!(text, "{name}{end}");
            for (at, (label, value)) in labels.iter().enumerate() {
                let _ = write!(text, "{}{label}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(value));
            }
            let close = if labels.is_empty() { "" } else { "}" };
            let _ = match value {
                Value::Count(count) => writeln!(text, "{close} {count}"),
                Value::Gauge(value) => writeln!(text, "{close} {value}"),
            };
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// The value of a label. Names of interfaces and peers may have any printable character.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_form_of_the_format() {
        let label = |value: &str| vec![("port", "field".to_owned()), ("interface", value.to_owned())];
        let families = [
            Family {
                name: "a_seconds",
                unit: "seconds",
                help: "An age.",
                samples: vec![(vec![], Value::Gauge(1.5))],
            },
            Family {
                name: "b",
                unit: "",
                help: "Frames.",
                samples: vec![(label("e\"\\\n"), Value::Count(7))],
            },
            Family { name: "c", unit: "", help: "None.", samples: vec![] },
        ];
        assert_eq!(
            write(&families, Format::OpenMetrics),
            "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds An age.\na_seconds 1.5\n\
             # TYPE b counter\n# HELP b Frames.\nb_total{port=\"field\",interface=\"e\\\"\\\\\\n\"} 7\n# EOF\n"
        );
        let older = write(&families[..2], Format::Prometheus);
        assert!(older.contains("# HELP b_total Frames.\nb_total{") && !older.contains("UNIT"), "{older}");
    }
}
