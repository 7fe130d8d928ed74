//! An element of the Forwarded field (RFC 7239, section 4).

use std::net::IpAddr;

use super::{Client, without_zone};
use crate::wire::is_token;
use penstock_error::{Code, Result};

pub(super) fn element(client: &Client<'_>) -> Result<Vec<u8>> {
    let mut element = format!("for={};host=", node(client.address)).into_bytes();
    push_quoted(&mut element, client.host)?;
    element.extend_from_slice(b";proto=");
    element.extend_from_slice(client.scheme.as_bytes());
    Ok(element)
}

/// Section 6. The path of a Unix socket, mostly empty, is not disclosed.
fn node(address: Option<&str>) -> String {
    match address.and_then(|address| without_zone(address).parse().ok()) {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("\"[{address}]\""),
        None => "unknown".to_owned(),
    }
}

/// Writes it as a token if it is one, else as a quoted-string.
fn push_quoted(element: &mut Vec<u8>, value: &[u8]) -> Result<()> {
    if is_token(value) {
        element.extend_from_slice(value);
        return Ok(());
    }
    if value.iter().any(|byte| *byte < b' ' && *byte != b'\t') {
        return Err(Code::BadRequest.error("the Host field contains a control character"));
    }
    element.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            element.push(b'\\');
        }
        element.push(*byte);
    }
    element.push(b'"');
    Ok(())
}
