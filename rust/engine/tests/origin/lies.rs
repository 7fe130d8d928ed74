//! Origins that lie, break off or never end: each gets its own code, and nothing is left behind.

use penstock_engine::Code;
use tokio::time::timeout;

use crate::rig::{AMPLE, Rig, SHORT, get};
use crate::server::Server;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The response is cut off there and the connection ended.
#[tokio::test]
async fn an_early_close_is_told_by_where_it_happens() {
    for (response, code) in [
        (String::new(), Code::OriginClosed),
        ("H".into(), Code::OriginClosed),
        ("HTTP/1.1 200 OK".into(), Code::OriginClosed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n".into(), Code::OriginClosed),
        ("HTTP/1.1 103 Early Hints\r\n\r\n".into(), Code::OriginClosed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".into(), Code::BodyTruncated),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell".into(), Code::BodyTruncated),
        (CHUNKED.into(), Code::BodyTruncated),
        (format!("{CHUNKED}5"), Code::BodyTruncated),
        (format!("{CHUNKED}5;x"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\n"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\nhell"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\nhello"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\nhello\r\n"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\nhello\r\n0"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\nhello\r\n0\r\n"), Code::BodyTruncated),
        (format!("{CHUNKED}5\r\nhello\r\n0\r\nA: b\r\n"), Code::BodyTruncated),
    ] {
        let response: String = response;
        let (rig, server) = (Rig::new(), Server::once(response.clone()).await);
        let error = rig.failure(get(&server)).await;
        assert_eq!(error.code(), code, "{response:?}: {error}");
        assert_eq!(error.origin(), Some(format!("http://{}", server.address).as_str()));
        assert_eq!(server.connections(), 1, "{response:?}: a fresh connection is no reason to try again");
        rig.check().await;
    }
}

#[tokio::test]
async fn a_reset_is_a_reset_at_every_stage() {
    for response in
        ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "HTTP/1.1 200 OK\r\n\r\nhe"]
    {
        let server = Server::start(move |mut peer, _| async move {
            peer.request().await;
            peer.send(response).await;
            peer.reset();
        })
        .await;
        let rig = Rig::new();
        let error = rig.failure(get(&server)).await;
        assert_eq!(error.code(), Code::OriginReset, "{response:?}: {error}");
        rig.check().await;
    }
}

#[tokio::test]
async fn a_stall_ends_in_its_limit_at_every_stage() {
    for (response, code) in [
        (String::new(), Code::FirstByteTimeout),
        ("HTTP/1.1 103 Early Hints\r\n\r\n".into(), Code::FirstByteTimeout),
        ("H".into(), Code::IoTimeout),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n".into(), Code::IoTimeout),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".into(), Code::IoTimeout),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell".into(), Code::IoTimeout),
        ("HTTP/1.1 200 OK\r\n\r\nhello".into(), Code::IoTimeout),
        (CHUNKED.into(), Code::IoTimeout),
        (format!("{CHUNKED}5\r\nhel"), Code::IoTimeout),
        (format!("{CHUNKED}5\r\nhello\r\n0\r\n"), Code::IoTimeout),
    ] {
        let response: String = response;
        let (rig, server) = (Rig::new(), Server::stalling(response.clone()).await);
        let mut request = get(&server);
        match code {
            Code::FirstByteTimeout => request.timeouts.first_byte = Some(SHORT),
            _ => request.timeouts.between_bytes = Some(SHORT),
        }
        let error = timeout(AMPLE / 2, rig.failure(request)).await.expect("the wrong limit was in force");
        assert_eq!(error.code(), code, "{response:?}: {error}");
        rig.check().await;
    }
}

#[tokio::test]
async fn the_limit_between_bytes_counts_from_the_last_byte() {
    const GAPS: u32 = 10;
    for (start, drop, end) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "x", ""),
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n", "Content-Length: 0\r\n\r\n"),
    ] {
        let server = Server::start(move |mut peer, _| async move {
            peer.request().await;
            peer.send(start).await;
            for _ in 0..GAPS {
                tokio::time::sleep(SHORT).await;
                peer.send(drop).await;
            }
            peer.send(end).await;
            peer.until_closed().await;
        })
        .await;
        let rig = Rig::new();
        let mut request = get(&server);
        request.timeouts.between_bytes = Some(SHORT * (GAPS - 2));
        assert_eq!(rig.fetch(request).collect().await.unwrap().status, 200);
        rig.check().await;
    }
}

#[tokio::test]
async fn what_is_not_strictly_http_is_refused() {
    for (response, code) in [
        ("SSH-2.0-OpenSSH\r\n".into(), Code::BadHead),
        ("HTTP/2 200\r\n\r\n".into(), Code::BadHead),
        ("HTTP/1.1 200 OK\nA: b\n\n".into(), Code::BareLineFeed),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n".into(), Code::FoldedHeader),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".into(), Code::BadLength),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello".into(),
            Code::ConflictingLength,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
            Code::LengthAndChunked,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n".into(), Code::BadTransferEncoding),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".into(), Code::UnexpectedUpgrade),
        ("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(4), Code::TooManyInterim),
        (format!("{CHUNKED}\r\nhello\r\n0\r\n\r\n"), Code::BadChunk),
        (format!("{CHUNKED}5\r\nhelloX\r\n"), Code::BadChunk),
        (format!("{CHUNKED}5\nhello"), Code::BareLineFeed),
        (format!("{CHUNKED}0\r\n: x\r\n\r\n"), Code::BadTrailer),
    ] {
        let response: String = response;
        let (rig, server) = (Rig::new(), Server::stalling(response.clone()).await);
        let error = rig.failure(get(&server)).await;
        assert_eq!(error.code(), code, "{response:?}: {error}");
        assert_eq!(rig.connections(), (0, 0, 0), "{response:?}: the connection was kept");
        rig.check().await;
    }
}

/// Sends `start`, then `more` for ever.
async fn endless(start: &'static str, more: &'static str) -> Server {
    Server::start(move |mut peer, _| async move {
        peer.request().await;
        peer.send(start).await;
        let more = more.repeat(64);
        while tokio::io::AsyncWriteExt::write_all(&mut peer.stream, more.as_bytes()).await.is_ok() {}
    })
    .await
}

#[tokio::test]
async fn what_never_ends_is_cut_off() {
    for (start, more, code) in [
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n", Code::HeadTooLarge),
        ("HTTP/1.1 200 OK\r\nA: ", "bbbbbbbb", Code::HeadTooLarge),
        ("", "HTTP/1.1 100 Continue\r\n\r\n", Code::TooManyInterim),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", "xxxxxxxx", Code::ChunkExtensionTooLarge),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1;xxxxxxx\r\nx\r\n",
            Code::ChunkExtensionTooLarge,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n", Code::BadTrailer),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0000000", Code::BadChunk),
    ] {
        let (rig, server) = (Rig::new(), endless(start, more).await);
        let error = rig.failure(get(&server)).await;
        assert_eq!(error.code(), code, "{start:?} {more:?}: {error}");
        rig.check().await;
    }
}

#[tokio::test]
async fn a_head_that_drips_is_bounded_by_the_whole_exchange() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\n").await;
        while tokio::io::AsyncWriteExt::write_all(&mut peer.stream, b"A").await.is_ok() {
            tokio::task::yield_now().await;
            tokio::time::sleep(SHORT / 8).await;
        }
    })
    .await;
    let rig = Rig::new();
    let mut request = get(&server);
    request.timeouts.between_bytes = Some(SHORT * 4);
    request.timeouts.total = Some(SHORT);
    assert_eq!(rig.failure(request).await.code(), Code::TotalTimeout);
    rig.check().await;
}
