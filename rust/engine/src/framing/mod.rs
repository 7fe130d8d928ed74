//! Cutting a body into frames.
