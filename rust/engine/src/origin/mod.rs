//! Fetching from origins over HTTP/1.1.
