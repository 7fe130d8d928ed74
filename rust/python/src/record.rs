//! `record!`: snapshots for Python, as instances of the public dataclasses, made by the names of their fields.
//!
//! A field that only one side has is a `TypeError` at the first call. So each kind of snapshot needs a test.

/// Makes an instance of the class `$class` of `$module` with these fields: `PyResult<Bound<'py, PyAny>>`.
macro_rules! record {
    (@value $field:ident) => { $field };
    (@value $field:ident, $value:expr) => { $value };
    ($py:expr, $module:literal, $class:ident { $($field:ident $(: $value:expr)?),+ $(,)? }) => {{
        static CLASS: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::types::PyType>> =
            pyo3::sync::PyOnceLock::new();
        let py: pyo3::Python<'_> = $py;
        CLASS.import(py, $module, stringify!($class)).and_then(|class| {
            let fields = pyo3::types::PyDict::new(py);
            $(fields.set_item(
                pyo3::intern!(py, stringify!($field)),
                $crate::record::record!(@value $field $(, $value)?),
            )?;)+
            class.call((), Some(&fields))
        })
    }};
}

pub(crate) use record;
