//! HTTP/1.1 as bytes: heads, bodies, requests. No sockets.
