//! The last minutes, for the sparklines of a viewer that has just come.

use std::collections::{BTreeMap, VecDeque};

use crate::metrics::json::Json;

/// Seconds that are kept: as many as a sparkline has points.
const KEPT: usize = 180;

/// One figure of each row at each second. Bounded: rows are.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Second>);

/// The figures of a second, by the key of the row.
#[derive(Debug)]
pub(super) struct Second {
    /// Milliseconds since 1970.
    pub(super) at: u64,
    pub(super) figures: BTreeMap<String, f64>,
}

impl History {
    pub(super) fn add(&mut self, second: Second) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(second);
    }

    /// As JSON: the times, and the figures of each row that there is now.
    #[expect(clippy::cast_precision_loss, reason = "2^53 milliseconds are 285,000 years")]
    pub(super) fn text(&self) -> String {
        let mut out = Json::default();
        out.open('{');
        out.name("at").open('[');
        for second in &self.0 {
            out.number(Some(second.at as f64));
        }
        out.close(']');
        out.name("figures").open('{');
        for key in self.0.back().into_iter().flat_map(|second| second.figures.keys()) {
            out.name(key).open('[');
            for second in &self.0 {
                out.number(second.figures.get(key).copied());
            }
            out.close(']');
        }
        out.close('}');
        out.close('}');
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str, json};

    use super::*;

    #[test]
    fn rows_that_have_gone_are_left_out_and_old_seconds_too() {
        let mut history = History::default();
        let text = |history: &History| from_str::<Value>(&history.text()).unwrap();
        assert_eq!(text(&history), json!({"at": [], "figures": {}}));
        let second = |at, keys: &[&str]| Second {
            at,
            figures: keys.iter().map(|key| ((*key).to_owned(), 0.5)).collect(),
        };
        history.add(second(1, &["a", "b"]));
        history.add(second(2, &["b", "c"]));
        assert_eq!(text(&history), json!({"at": [1, 2], "figures": {"b": [0.5, 0.5], "c": [null, 0.5]}}));
        for at in 3..1000 {
            history.add(second(at, &["d"]));
        }
        let text = text(&history);
        assert_eq!(text["at"].as_array().unwrap().len(), KEPT);
        assert_eq!(text["figures"].as_object().unwrap().len(), 1);
    }
}
