//! JSON as it is written.

use std::fmt::{Display, Write};
use std::time::Duration;

use crate::hub::quoted;

/// A text of JSON that is being written. Commas come by themselves.
#[derive(Debug, Default)]
pub(super) struct Json(String);

impl Json {
    /// Begins an object or an array, which [`Json::close`] ends.
    pub(super) fn open(&mut self, bracket: char) {
        self.separate();
        self.0.push(bracket);
    }

    pub(super) fn close(&mut self, bracket: char) {
        self.0.push(bracket);
    }

    /// The name of the next value.
    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        self.separate();
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self
    }

    pub(super) fn text(&mut self, text: &str) {
        self.separate();
        self.0.push_str(&quoted(text));
    }

    /// A number in three digits after the point; `null` if it is not known.
    pub(super) fn number(&mut self, number: Option<f64>) {
        self.separate();
        let number = number.filter(|number| number.is_finite());
        match number.map(|number| (number * 1000.0).round() / 1000.0) {
            Some(number) => self.put(number),
            None => self.put("null"),
        }
    }

    /// A time in seconds, in six digits after the point: what a thread does in a tenth of a second may take less than a
    /// millisecond.
    pub(super) fn seconds(&mut self, time: Duration) {
        self.separate();
        self.put((time.as_secs_f64() * 1e6).round() / 1e6);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.separate();
        self.0.push_str(if flag { "true" } else { "false" });
    }

    /// A text, or `null`.
    pub(super) fn text_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.number(None),
        }
    }

    /// Members of an object whose values are numbers.
    pub(super) fn numbers(&mut self, members: &[(&str, Option<f64>)]) {
        for (name, number) in members {
            self.name(name).number(*number);
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn put(&mut self, value: impl Display) {
        write!(self.0, "{value}").expect("a String takes all that is written");
    }

    fn separate(&mut self) {
        if self.0.ends_with(|last: char| !matches!(last, '{' | '[' | ':')) {
            self.0.push(',');
        }
    }
}

/// A count as a number of JSON.
#[expect(clippy::cast_precision_loss, reason = "a figure for a person")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// As [`float`].
#[expect(clippy::cast_precision_loss, reason = "a figure for a person")]
pub(super) fn size(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, from_str, json};

    use super::*;

    #[test]
    fn values_are_separated_and_numbers_are_short() {
        let mut out = Json::default();
        out.open('{');
        out.numbers(&[("a", Some(1.0)), ("b", None), ("c", Some(0.123_456)), ("d", Some(f64::INFINITY))]);
        out.name("e").seconds(Duration::from_nanos(2_700));
        out.name("rows").open('[');
        for name in ["x", "{", ":"] {
            out.open('{');
            out.name("name").text(name);
            out.name("is").flag(true);
            out.close('}');
        }
        out.text_or_null(None);
        out.close(']');
        out.close('}');
        let text = out.finish();
        let row = |name| json!({"name": name, "is": true});
        let rows = json!([row("x"), row("{"), row(":"), null]);
        assert_eq!(
            from_str::<Value>(&text).unwrap(),
            json!({"a": 1, "b": null, "c": 0.123, "d": null, "e": 3e-6, "rows": rows})
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_back(texts in proptest::collection::vec(any::<String>(), 0..4)) {
            let mut out = Json::default();
            out.open('[');
            for text in &texts {
                out.text(text);
            }
            out.close(']');
            let text = out.finish();
            prop_assert!(!text.contains('\n'), "an event is one line");
            prop_assert_eq!(from_str::<Vec<String>>(&text).unwrap(), texts);
        }
    }
}
