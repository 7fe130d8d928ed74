//! Writes metrics as text: Prometheus' format 0.0.4, or `OpenMetrics` 1.0.
//!
//! A family begins once, and all its samples follow at once: [`Exposition::counter`] and its like lend the writer to the
//! family until the next one begins. Names and help are constants of the engine; values of labels may be any text, and
//! are escaped here. The invariant: a scraper can read back every value.

use std::fmt::Write;
use std::time::Duration;

use super::carried::{Carried, Samples, Written};
use super::value::Value;
use crate::counters::{BOUNDS, Histogram};
use crate::edge::{Exemplar, Exemplars};
use crate::sync::Arc;

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Format {
    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that a client with the field `accept` prefers: `OpenMetrics` only if the field names it.
    pub fn preferred(accept: &[u8]) -> Self {
        let accept = String::from_utf8_lossy(accept).to_ascii_lowercase();
        let (mut text, mut open) = (0.0_f64, 0.0_f64);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let (mut quality, mut version) = (1.0, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim_end() {
                    // A weight that is not a number is ignored.
                    "q" => quality = value.trim_start().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim_start().trim_matches('"')),
                    _ => {}
                }
            }
            match (media, version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(quality),
                ("text/plain" | "text/*" | "*/*", _) => text = text.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }
}

/// Names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A writer of metrics.
#[derive(Debug)]
pub struct Exposition {
    text: String,
    format: Format,
    /// What is added to counters.
    carried: Option<Arc<Carried>>,
    written: Written,
    /// The family of counters or of histograms that has begun.
    family: Option<&'static str>,
    /// Counters as they were written, if they are kept.
    counters: Option<Samples>,
}

impl Exposition {
    /// An empty exposition.
    pub fn new(format: Format) -> Self {
        Self {
            text: String::with_capacity(16 * 1024),
            format,
            carried: None,
            written: Written::default(),
            family: None,
            counters: None,
        }
    }

    /// An empty exposition that adds to counters what another process has counted.
    pub(super) fn carrying(format: Format, carried: &Arc<Carried>) -> Self {
        Self { carried: Some(Arc::clone(carried)), ..Self::new(format) }
    }

    /// The samples of counters and histograms that are written from now on are kept, for [`Exposition::into_counters`].
    pub(super) fn keep_counters(&mut self) {
        self.counters = Some(Samples::default());
    }

    /// The samples that were kept.
    pub(super) fn into_counters(mut self) -> Samples {
        self.end();
        self.counters.unwrap_or_default()
    }

    /// Begins a family of counters. `name` ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        let family = match self.format {
            Format::Text => name,
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        self.begin(family, "counter", help);
        self.family = Some(name);
        Family { exposition: self, name, counts: true }
    }

    /// Begins a family of gauges.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.begin(name, "gauge", help);
        Family { exposition: self, name, counts: false }
    }

    /// Begins a family of histograms.
    pub fn histogram(&mut self, name: &'static str, help: &str) -> Histograms<'_> {
        self.begin(name, "histogram", help);
        self.family = Some(name);
        Histograms { exposition: self, name }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        self.end();
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Ends a family, with what another process has counted of it and this one has not.
    fn end(&mut self) {
        let (Some(family), Some(carried)) = (self.family.take(), &self.carried) else { return };
        let Self { text, counters, written, .. } = self;
        carried.rest(family, written, |sample, value| {
            writeln!(text, "{sample} {value}").expect("a String takes all that is written");
            if let Some(counters) = counters {
                counters.add(sample, value);
            }
        });
    }

    fn begin(&mut self, family: &str, kind: &str, help: &str) {
        self.end();
        self.put(format_args!("# HELP {family} {help}\n# TYPE {family} {kind}\n"));
    }

    fn sample(&mut self, name: Name<'_>, labels: Labels<'_>, le: Option<&str>, value: Value) {
        let Name { family, suffix, counts } = name;
        let start = self.text.len();
        self.text.push_str(family);
        self.text.push_str(suffix);
        let mut opening = '{';
        for (name, value) in labels.iter().copied().chain(le.map(|le| ("le", le))) {
            self.text.push(opening);
            self.put(format_args!("{name}=\""));
            escape(&mut self.text, value);
            self.text.push('"');
            opening = ',';
        }
        if opening == ',' {
            self.text.push('}');
        }
        let value = if counts { self.counted(start, value) } else { value };
        self.put(format_args!(" {value}\n"));
    }

    /// The value of a counter whose name and labels begin at `start`.
    fn counted(&mut self, start: usize, own: Value) -> Value {
        let sample = &self.text[start..];
        let value = match &self.carried {
            Some(carried) => carried.sum(sample, own, &mut self.written),
            None => own,
        };
        if let Some(counters) = &mut self.counters {
            counters.add(sample, value);
        }
        value
    }

    /// Adds an exemplar to the sample before (`OpenMetrics` 1.0, section "Exemplars").
    fn exemplar(&mut self, exemplar: Exemplar) {
        if self.format == Format::OpenMetrics {
            // Before the line end.
            self.text.pop();
            let Exemplar { trace, took, at } = exemplar;
            let (took, at) = (took.as_secs_f64(), at.as_secs_f64());
            self.put(format_args!(" # {{trace_id=\"{trace}\"}} {took} {at:.3}\n"));
        }
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        self.text.write_fmt(what).expect("a String takes all that is written");
    }
}

/// The name of a sample, and whether it is of a counter or of a histogram.
#[derive(Clone, Copy)]
struct Name<'a> {
    family: &'a str,
    suffix: &'a str,
    counts: bool,
}

/// A family of counters or gauges, to which samples are added.
#[derive(Debug)]
pub struct Family<'a> {
    exposition: &'a mut Exposition,
    name: &'static str,
    counts: bool,
}

impl Family<'_> {
    /// Adds a sample. Two samples of a family never have the same labels.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Into<Value>) -> &mut Self {
        let Self { name, counts, .. } = *self;
        self.exposition.sample(Name { family: name, suffix: "", counts }, labels, None, value.into());
        self
    }
}

/// A family of histograms.
#[derive(Debug)]
pub struct Histograms<'a> {
    exposition: &'a mut Exposition,
    name: &'static str,
}

impl Histograms<'_> {
    /// Adds a histogram. Two of a family never have the same labels.
    pub fn sample(&mut self, labels: Labels<'_>, histogram: &Histogram) -> &mut Self {
        self.sample_with(labels, histogram, &Exemplars::default())
    }

    /// Adds a histogram with the last traces of its buckets, which the text format has no place for.
    pub fn sample_with(
        &mut self,
        labels: Labels<'_>,
        histogram: &Histogram,
        exemplars: &Exemplars,
    ) -> &mut Self {
        let bounds = BOUNDS.iter().map(Duration::as_secs_f64);
        self.put(labels, bounds, &histogram.counts, histogram.sum.into(), |at| exemplars[at])
    }

    /// Adds a histogram of whole numbers: how many were within each of `bounds` and above the one before it, the last above all of
    /// them; and their sum.
    #[expect(clippy::cast_precision_loss, reason = "bounds are round numbers")]
    pub fn sample_whole(
        &mut self,
        labels: Labels<'_>,
        bounds: &[u64],
        counts: &[u64],
        sum: u64,
    ) -> &mut Self {
        self.put(labels, bounds.iter().map(|bound| *bound as f64), counts, sum.into(), |_| None)
    }

    fn put(
        &mut self,
        labels: Labels<'_>,
        bounds: impl Iterator<Item = f64>,
        counts: &[u64],
        sum: Value,
        exemplar: impl Fn(usize) -> Option<Exemplar>,
    ) -> &mut Self {
        let mut all = 0;
        // In the number format of OpenMetrics: 1.0 and not 1.
        let bounds = bounds.map(|bound| format!("{bound:?}")).chain(["+Inf".to_owned()]);
        for (at, (le, count)) in bounds.zip(counts).enumerate() {
            all += count;
            self.exposition.sample(self.suffixed("_bucket"), labels, Some(&le), all.into());
            if let Some(exemplar) = exemplar(at) {
                self.exposition.exemplar(exemplar);
            }
        }
        self.exposition.sample(self.suffixed("_sum"), labels, None, sum);
        self.exposition.sample(self.suffixed("_count"), labels, None, all.into());
        self
    }

    fn suffixed(&self, suffix: &'static str) -> Name<'static> {
        Name { family: self.name, suffix, counts: true }
    }
}

fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn families_are_written_in_either_format() {
        let write = |format| {
            let mut out = Exposition::new(format);
            out.counter("a_total", "Events.").sample(&[], 3_u64).sample(&[("b", "x"), ("c", "y")], 4_usize);
            out.gauge("d_seconds", "Time.").sample(&[("e", "")], Duration::from_millis(1500));
            out.finish()
        };
        let samples = "a_total 3\na_total{b=\"x\",c=\"y\"} 4\n";
        let gauge = "# HELP d_seconds Time.\n# TYPE d_seconds gauge\nd_seconds{e=\"\"} 1.5\n";
        let text = format!("# HELP a_total Events.\n# TYPE a_total counter\n{samples}{gauge}");
        assert_eq!(write(Format::Text), text);
        let open = format!("# HELP a Events.\n# TYPE a counter\n{samples}{gauge}# EOF\n");
        assert_eq!(write(Format::OpenMetrics), open);
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let mut histogram = Histogram { sum: Duration::from_secs(3), ..Histogram::default() };
        histogram.counts[0] = 2;
        histogram.counts[10] = 1;
        *histogram.counts.last_mut().unwrap() = 4;
        let mut out = Exposition::new(Format::Text);
        out.histogram("a_seconds", "Time.").sample(&[("b", "x")], &histogram);
        let text = out.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), BOUNDS.len() + 3);
        assert_eq!(lines[0], "a_seconds_bucket{b=\"x\",le=\"0.001\"} 2");
        assert_eq!(lines[9], "a_seconds_bucket{b=\"x\",le=\"0.075\"} 2");
        assert_eq!(lines[10], "a_seconds_bucket{b=\"x\",le=\"0.1\"} 3");
        assert_eq!(lines[25], "a_seconds_bucket{b=\"x\",le=\"120.0\"} 3");
        assert_eq!(
            lines[26..],
            [
                "a_seconds_bucket{b=\"x\",le=\"+Inf\"} 7",
                "a_seconds_sum{b=\"x\"} 3",
                "a_seconds_count{b=\"x\"} 7"
            ]
        );
    }

    #[test]
    fn open_metrics_are_for_those_who_ask_for_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                          q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let cases = [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.1", Format::OpenMetrics),
            (prometheus, Format::OpenMetrics),
            ("text/plain;q=0.5, application/openmetrics-text;version=1.0.0;q=0.5", Format::OpenMetrics),
            ("text/plain, application/openmetrics-text;q=0.5", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=much", Format::Text),
            ("application/openmetrics-text;version=2.0.0", Format::Text),
            (";;;,,;q=;=,application/openmetrics-textual", Format::Text),
        ];
        for (accept, format) in cases {
            assert_eq!(Format::preferred(accept.as_bytes()), format, "{accept}");
        }
    }

    /// Reads the value of a label, as scrapers do.
    fn unescape(text: &str) -> Option<(String, &str)> {
        let mut value = String::new();
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return Some((value, &text[at + 1..])),
                '\n' => return None,
                '\\' => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        None
    }

    proptest! {
        #[test]
        fn values_of_labels_are_read_back_whatever_they_are(values in proptest::array::uniform2(any::<String>())) {
            let mut out = Exposition::new(Format::Text);
            out.gauge("a", "A.").sample(&[("b", &values[0]), ("c", &values[1])], 1_u64);
            let text = out.finish();
            let line = text.strip_prefix("# HELP a A.\n# TYPE a gauge\na{b=\"").unwrap();
            let (first, rest) = unescape(line).unwrap();
            let (second, rest) = unescape(rest.strip_prefix(",c=\"").unwrap()).unwrap();
            prop_assert_eq!([first, second], values);
            prop_assert_eq!(rest, "} 1\n");
        }

        #[test]
        fn no_accept_is_too_strange(accept in proptest::collection::vec(any::<u8>(), 0..64)) {
            Format::preferred(&accept);
        }
    }
}
