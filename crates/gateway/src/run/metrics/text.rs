//! The text formats of metrics: OpenMetrics 1.0, and the older one of Prometheus (0.0.4), which
//! other programs read.

use std::fmt::Write as _;

/// A value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A count since the start.
    Count(u64),
    /// A present value.
    Gauge(f64),
    /// A distribution: the number of values up to each bound, their number and sum.
    Histogram(Vec<(f64, u64)>, u64, f64),
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
    /// Its samples, all of one kind. Without any the family is left out.
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
            Value::Histogram(..) => ("histogram", ""),
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
            match value {
                Value::Count(count) => sample(&mut text, &format!("{name}{end}"), labels, count),
                Value::Gauge(value) => sample(&mut text, name, labels, value),
                Value::Histogram(buckets, count, sum) => {
                    let bounds = buckets.iter().map(|(bound, count)| (bound.to_string(), *count));
                    let bucket = format!("{name}_bucket");
                    for (bound, count) in bounds.chain([("+Inf".to_owned(), *count)]) {
                        let labels = [&labels[..], &[("le", bound)]].concat();
                        sample(&mut text, &bucket, &labels, count);
                    }
                    sample(&mut text, &format!("{name}_count"), labels, count);
                    sample(&mut text, &format!("{name}_sum"), labels, sum);
                }
            }
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// Writes a sample.
fn sample(text: &mut String, name: &str, labels: &[(&'static str, String)], value: impl std::fmt::Display) {
    text.push_str(name);
    for (at, (label, value)) in labels.iter().enumerate() {
        let _ = write!(text, "{}{label}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(value));
    }
    let close = if labels.is_empty() { "" } else { "}" };
    let _ = writeln!(text, "{close} {value}");
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
        let buckets = vec![(0.5, 2), (1.0, 3)];
        let sampled =
            vec![(label("e"), Value::Histogram(buckets, 4, 3.5)), (vec![], Value::Histogram(vec![], 0, 0.0))];
        let histogram = Family { name: "d_seconds", unit: "seconds", help: "Times.", samples: sampled };
        let text = write(&[histogram], Format::Prometheus);
        for line in [
            "# TYPE d_seconds histogram",
            "d_seconds_bucket{port=\"field\",interface=\"e\",le=\"0.5\"} 2",
            "d_seconds_bucket{port=\"field\",interface=\"e\",le=\"+Inf\"} 4",
            "d_seconds_count{port=\"field\",interface=\"e\"} 4",
            "d_seconds_sum{port=\"field\",interface=\"e\"} 3.5",
            "d_seconds_bucket{le=\"+Inf\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let older = write(&families[..2], Format::Prometheus);
        assert!(older.contains("# HELP b_total Frames.\nb_total{") && !older.contains("UNIT"), "{older}");
    }
}
