use super::*;

fn read(text: &str) -> (Head, usize) {
    head(text.as_bytes()).unwrap().expect("the head is complete")
}

/// The data of a body, fed in pieces of `size` bytes.
fn fed(mut body: Body, bytes: &[u8], size: usize) -> Result<(Vec<u8>, Body), Failure> {
    let mut data = Vec::new();
    for piece in bytes.chunks(size) {
        body.feed(piece, &mut |more| data.extend_from_slice(more))?;
    }
    Ok((data, body))
}

#[test]
fn a_head_says_where_its_body_ends() {
    let body = |fields: &str| read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).0.body;
    assert_eq!(body("Content-Length: 17\r\n"), Body::Length(17));
    assert_eq!(body("content-length: 17, 17\r\n"), Body::Length(17));
    assert_eq!(
        body("Transfer-Encoding: gzip, Chunked\r\nContent-Length: 3\r\n"),
        Body::Chunked(Chunks::Size(0, false))
    );
    assert_eq!(body("Server: x\r\n"), Body::UntilClose);
    assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n").0.body, Body::Length(0));
    assert!(head(b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n").is_err());
    assert!(head(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n").is_err());
    assert!(head(b"<html>").is_err());
}

#[test]
fn a_head_that_has_not_come_to_its_end_is_waited_for_and_an_interim_one_is_left_out() {
    let text =
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx";
    for cut in 0..text.len() - 1 {
        assert!(head(&text.as_bytes()[..cut]).unwrap().is_none(), "{cut}");
    }
    let (found, length) = read(text);
    assert_eq!((found.status, length), (StatusCode::NOT_FOUND, text.len() - 1));
}

#[test]
fn a_connection_stays_open_unless_a_side_says_otherwise() {
    let stays = |text: &str| read(text).0.stays_open;
    assert!(stays("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert!(!stays("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n"));
    assert!(!stays("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert!(stays("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"));
    assert!(!stays("HTTP/1.1 200 OK\r\n\r\n"));
}

#[test]
fn chunks_are_the_same_in_pieces_of_any_size() {
    let text = b"5;name=\"x\"\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nA: b\r\nC: d\r\n\r\n";
    for size in 1..=text.len() {
        let (data, body) = fed(Body::Chunked(Chunks::Size(0, false)), text, size).unwrap();
        assert_eq!(data, b"helloabcdefghijklmnopqrstuvwxyz", "{size}");
        assert!(body.is_done());
        let (_, cut) = fed(Body::Chunked(Chunks::Size(0, false)), &text[..text.len() - 1], size).unwrap();
        assert!(!cut.is_done() && cut.ended().is_err());
    }
}

#[test]
fn chunks_that_are_none_are_refused() {
    for text in ["x\r\n", "\r\n", "1\r\nab\r\n", "5x\r\n", "11111111111111111\r\n", "0\r\n\r\nmore"] {
        assert!(fed(Body::Chunked(Chunks::Size(0, false)), text.as_bytes(), 100).is_err(), "{text}");
    }
}

#[test]
fn a_body_with_a_length_ends_there_and_one_without_where_the_connection_does() {
    let (data, body) = fed(Body::Length(3), b"abc", 2).unwrap();
    assert!(data == b"abc" && body.is_done());
    assert!(fed(Body::Length(3), b"abcd", 4).is_err());
    assert!(Body::Length(1).ended().is_err());
    assert!(Body::UntilClose.ended().is_ok());
    let mut body = Body::Length(10);
    body.skipped(4).unwrap();
    assert_eq!(body.plain(), Some(6));
}

#[test]
fn more_than_a_length_that_is_not_looked_at_is_refused() {
    let mut body = Body::Length(5);
    assert!(body.skipped(5).is_ok() && body.is_done());
    assert!(matches!(Body::Length(5).skipped(6), Err(Failure::NotHttp(_))));
    assert!(Body::UntilClose.skipped(6).is_ok());
}
