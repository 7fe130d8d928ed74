//! The bounded channel between whoever reads a source and whoever consumes its frames.
