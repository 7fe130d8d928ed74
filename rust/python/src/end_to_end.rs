//! The fields of a message that a handler passes on.

use penstock_engine::relay::{self, EndToEnd};
use penstock_engine::wire::{Head, Names};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::relay::text;
use crate::request::{pairs_of, parts_of};
use crate::stream::{FrameStream, name_text};

/// What a request says to the server alone that it comes to: the site, which the URL of the next request names, and Expect, which
/// has been answered.
const TO_THE_SERVER: Names = Names::new(&["expect", "host"]);

/// The end-to-end fields of a response, or of a mapping or of pairs, as [`EndToEnd`] has them. `None`: the response has no
/// head, or something of the fields is not as usual, and Python reads them itself, or says what is wrong.
#[pyfunction]
pub(crate) fn end_to_end<'py>(message: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
    let py = message.py();
    if let Ok(response) = message.cast::<FrameStream>() {
        let head = response.get().head();
        return head.map(|head| passed_texts(py, &head.head)).transpose();
    }
    let Some(pairs) = pairs_of(message)? else { return Ok(None) };
    let mut fields = Vec::with_capacity(pairs.len()?);
    for pair in pairs.try_iter()? {
        let pair = pair?;
        let Some([name, value]) = parts_of(&pair) else { return Ok(None) };
        let (Ok(name), Ok(value)) = (name.cast_into::<PyString>(), value.cast_into::<PyString>()) else {
            return Ok(None);
        };
        fields.push((pair, name, value));
    }
    let of_connection =
        fields.iter().filter(|(_, name, _)| name.to_string_lossy().eq_ignore_ascii_case("connection"));
    let options: Vec<_> = of_connection.map(|(_, _, value)| value.to_string_lossy()).collect();
    let passed = EndToEnd::of(options.iter().map(|options| (b"connection".as_slice(), options.as_bytes())));
    let is_kept = |name: &Bound<'py, PyString>| {
        let name = name.to_string_lossy();
        passed.has(name.as_bytes()) && !TO_THE_SERVER.has(name.as_bytes())
    };
    let kept = fields.iter().filter(|(_, name, _)| is_kept(name));
    PyList::new(py, kept.map(|(pair, _, _)| pair).collect::<Vec<_>>()).map(Some)
}

/// The end-to-end fields of a response, as text that aiohttp can write.
fn passed_texts<'py>(py: Python<'py>, head: &Head) -> PyResult<Bound<'py, PyList>> {
    let fields = PyList::empty(py);
    for (name, value) in relay::response_fields(head) {
        fields.append((name_text(py, name)?, text(value)))?;
    }
    Ok(fields)
}
