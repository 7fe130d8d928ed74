//! The usage of a stream as a full parse of every event has it. Shares nothing with the engine, so that the fuzz target
//! can include it too.

use serde_json::{Map, Value};

/// The usage that the data of events, or one body, comes to; none if there is no object at one of the paths.
pub(super) fn usage<'a>(
    texts: impl Iterator<Item = &'a str>,
    paths: &[Vec<String>],
) -> Option<Map<String, Value>> {
    let mut found: Option<Map<String, Value>> = None;
    for text in texts {
        let Ok(whole) = serde_json::from_str::<Value>(text) else { continue };
        for path in paths {
            let end = path.iter().try_fold(&whole, |value, name| value.as_object()?.get(name));
            if let Some(object) = end.and_then(Value::as_object) {
                found.get_or_insert_default().extend(object.clone());
            }
        }
    }
    found
}
