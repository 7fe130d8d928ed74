//! Unit tests, over files in a directory of their own and connections in memory.

mod served;
mod support;
