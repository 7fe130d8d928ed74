//! Joins the parts of a request for one call of `data_received`.

use penstock_engine::pool::CopyReason;
use penstock_engine::stream::Delivery;
use penstock_engine::wire::{CHUNK_END, LAST_CHUNK, encode_chunk_head};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// `before` and the pieces as one object. `chunked`: the pieces as one chunk, with the `last` chunk
/// after it.
pub(super) fn join<'py>(
    py: Python<'py>,
    before: Option<&[u8]>,
    pieces: &[Delivery],
    last: bool,
    chunked: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    if let Some(piece) = pieces.first() {
        piece.pool().count_copy(CopyReason::PythonBytes, size);
    }
    let chunk = std::num::NonZeroUsize::new(size).filter(|_| chunked).map(encode_chunk_head);
    let mut parts: Vec<&[u8]> = Vec::with_capacity(pieces.len() + 4);
    parts.extend(before);
    if let Some(head) = &chunk {
        parts.push(head);
    }
    parts.extend(pieces.iter().map(|piece| &piece[..]));
    if chunk.is_some() {
        parts.push(CHUNK_END);
    }
    if last {
        parts.push(LAST_CHUNK);
    }
    let length = parts.iter().map(|part| part.len()).sum();
    PyBytes::new_with(py, length, |mut target| {
        for part in &parts {
            let (front, rest) = target.split_at_mut(part.len());
            front.copy_from_slice(part);
            target = rest;
        }
        Ok(())
    })
}
