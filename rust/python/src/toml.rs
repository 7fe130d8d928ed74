//! `parse_toml`: a document of TOML as Python objects, with the line and the column of each key and value.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use toml::de::{DeInteger, DeTable, DeValue, Error};

/// Names in one dotted key at most. The parser bounds the depth of arrays and inline tables, and not that of dotted keys,
/// whose tables are dropped one within another.
const NAMES: usize = 64;

/// A line and a column, both from 1 on; a column counts characters.
type Position = (usize, usize);

/// A position, and what is wrong there.
type Problem = (Position, String);

/// A document, and where its lines begin.
struct Text<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, lines: std::iter::once(0).chain(breaks).collect() }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines[line - 1];
        let before = self.text.as_bytes().get(start..offset).unwrap_or_default();
        // A byte that continues a character begins none.
        (line, 1 + before.iter().filter(|byte| **byte & 0xC0 != 0x80).count())
    }

    /// The first key of too many names.
    fn deep_key(&self) -> Option<usize> {
        let (mut dots, mut in_comment) = (0, false);
        for (at, byte) in self.text.bytes().enumerate() {
            match byte {
                b'\n' => (dots, in_comment) = (0, false),
                b'#' => in_comment = true,
                b'.' if !in_comment => dots += 1,
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'"' | b'\'' | b' ' | b'\t' => {}
                _ => dots = 0,
            }
            if dots >= NAMES {
                return Some(at);
            }
        }
        None
    }
}

/// Makes Python objects of a document.
struct Reader<'a, 'py> {
    py: Python<'py>,
    text: Text<'a>,
    problems: Vec<Problem>,
}

impl<'py> Reader<'_, 'py> {
    fn table(&mut self, table: &DeTable<'_>) -> PyResult<Bound<'py, PyAny>> {
        let made = PyDict::new(self.py);
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let at = self.text.position(key.span().start);
            let node = self.node(value.span().start, value.get_ref())?;
            made.set_item(key.get_ref().as_ref(), (at, node))?;
        }
        Ok(made.into_any())
    }

    fn node(&mut self, offset: usize, value: &DeValue<'_>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let at = self.text.position(offset);
        let found = match value {
            DeValue::String(text) => text.as_ref().into_bound_py_any(py)?,
            DeValue::Integer(number) => self.integer(at, number)?,
            DeValue::Float(number) => number.as_str().parse().unwrap_or(f64::NAN).into_bound_py_any(py)?,
            DeValue::Boolean(value) => value.into_bound_py_any(py)?,
            // No setting is a time. A tuple is no other kind of value.
            DeValue::Datetime(time) => PyTuple::new(py, [time.to_string()])?.into_any(),
            DeValue::Array(items) => {
                let made = PyList::empty(py);
                for item in items {
                    made.append(self.node(item.span().start, item.get_ref())?)?;
                }
                made.into_any()
            }
            DeValue::Table(table) => self.table(table)?,
        };
        (at, found).into_bound_py_any(py)
    }

    fn integer(&mut self, at: Position, number: &DeInteger<'_>) -> PyResult<Bound<'py, PyAny>> {
        let value = i64::from_str_radix(number.as_str(), number.radix());
        if value.is_err() {
            self.problems.push((at, format!("{number} is too large: a number has 64 bits")));
        }
        value.unwrap_or_default().into_bound_py_any(self.py)
    }
}

fn problem(text: &Text<'_>, error: &Error) -> Problem {
    let offset = error.span().map_or(text.text.len(), |span| span.start);
    (text.position(offset), error.message().replace('\n', ", "))
}

/// The table of a document, and what is wrong with its syntax.
///
/// A table is a dict of keys to their position and their node. A node is a position and a value: a table, a list of nodes,
/// a text, a number, a truth value, or a tuple with the text of a time.
#[pyfunction]
pub(crate) fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<(Bound<'py, PyAny>, Vec<Problem>)> {
    let text = Text::new(text);
    if let Some(at) = text.deep_key() {
        let problem = (text.position(at), format!("a key has {NAMES} names at most"));
        return Ok((PyDict::new(py).into_any(), vec![problem]));
    }
    let (document, errors) = DeTable::parse_recoverable(text.text);
    let problems = errors.iter().map(|error| problem(&text, error)).collect();
    let mut reader = Reader { py, text, problems };
    let table = reader.table(document.get_ref())?;
    reader.problems.sort();
    Ok((table, reader.problems))
}
