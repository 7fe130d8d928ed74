//! How a body is cut into frames. Validated in `penstock.framing`.

use penstock_engine::framing;
use pyo3::prelude::*;

#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Framing(pub(crate) framing::Framing);

#[pymethods]
impl Framing {
    #[staticmethod]
    fn raw() -> Self {
        Self(framing::Framing::Raw)
    }

    #[staticmethod]
    fn fixed(size: usize) -> Self {
        Self(framing::Framing::Fixed { size })
    }

    #[staticmethod]
    fn length_prefixed(width: u8, little_endian: bool, max_frame: usize) -> Self {
        Self(framing::Framing::LengthPrefixed { width, little_endian, max_frame })
    }

    #[staticmethod]
    fn lines(max_frame: usize) -> Self {
        Self(framing::Framing::Lines { max_frame })
    }

    #[staticmethod]
    fn events(max_frame: usize, blocks: bool) -> Self {
        Self(framing::Framing::Events { max_frame, blocks })
    }
}
