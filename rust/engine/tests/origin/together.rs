//! Heads that come with their bodies in one read: the memory for both is guessed by the response before.

use penstock_engine::Code;
use penstock_engine::origin::RequestBody;

use crate::rig::{Rig, request};
use crate::server::Server;

/// A response: how many bytes its head has beside the least, and its body.
#[derive(Debug, Clone, Copy)]
struct Form {
    padding: usize,
    body: usize,
    is_chunked: bool,
}

impl Form {
    fn body(self) -> Vec<u8> {
        (0..self.body).map(|at| u8::try_from((at + at / 251 + self.padding) % 251).unwrap()).collect()
    }

    /// As it is sent.
    fn response(self) -> Vec<u8> {
        let padding = "x".repeat(self.padding);
        let framing = match self {
            Self { is_chunked: true, .. } => "Transfer-Encoding: chunked".to_owned(),
            Self { body, .. } => format!("Content-Length: {body}"),
        };
        let mut response = format!("HTTP/1.1 200 OK\r\nX: {padding}\r\n{framing}\r\n\r\n").into_bytes();
        if self.is_chunked {
            for chunk in self.body().chunks(10_000) {
                response.extend(format!("{:x}\r\n", chunk.len()).bytes());
                response.extend(chunk);
                response.extend(b"\r\n");
            }
            response.extend(b"0\r\n\r\n");
        } else {
            response.extend(self.body());
        }
        response
    }
}

/// Answers the requests of each connection by one write each, in turn.
async fn in_turn(responses: Vec<Vec<u8>>) -> Server {
    Server::start(move |mut peer, _| {
        let responses = responses.clone();
        async move {
            for response in &responses {
                if peer.request().await.is_none() {
                    return;
                }
                peer.send(response).await;
            }
            peer.until_closed().await;
        }
    })
    .await
}

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    // A slab of heads has 4,096 bytes.
    for padding in [0, 1, 3_950, 9_000] {
        for body in [0, 4_000, 16_384, 100_000] {
            forms.push(Form { padding, body, is_chunked: false });
        }
    }
    forms.push(Form { padding: 0, body: 30_000, is_chunked: true });
    forms
}

#[tokio::test]
async fn whatever_response_follows_another_is_delivered_as_it_was_sent() {
    for before in forms() {
        // All follow it on one connection, and it follows them.
        let order: Vec<_> = forms().into_iter().flat_map(|next| [before, next]).collect();
        let server = in_turn(order.iter().map(|form| form.response()).collect()).await;
        for in_frames in [false, true] {
            let rig = Rig::new();
            for (turn, form) in order.iter().enumerate() {
                let mut asked = request("GET", &server, RequestBody::None);
                asked.in_frames = in_frames;
                let got = rig.fetch(asked).collect().await.unwrap();
                assert!(got.bytes == form.body(), "{form:?} after {before:?} has other bytes");
                assert_eq!(got.reused, turn > 0, "{form:?} after {before:?}");
            }
            rig.check().await;
        }
    }
}

#[tokio::test]
async fn a_body_like_the_last_one_is_one_frame_for_a_reader_of_frames() {
    let form = Form { padding: 50, body: 16_384, is_chunked: false };
    let server = Server::always(form.response()).await;
    let rig = Rig::new();
    for turn in 0..10 {
        let mut asked = request("GET", &server, RequestBody::None);
        asked.in_frames = true;
        let got = rig.fetch(asked).collect().await.unwrap();
        assert!(got.bytes == form.body());
        assert!(turn == 0 || got.frames == 1, "{} frames in turn {turn}", got.frames);
    }
    rig.check().await;
}

#[tokio::test]
async fn what_follows_a_long_response_is_judged_as_on_a_new_connection() {
    let long = Form { padding: 0, body: 16_384, is_chunked: false }.response();
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let short = &long[..long.len() - 1];
    let stray = [&long[..], b"stray"].concat();
    for (next, code) in [
        ([&early[..], &long].concat(), None),
        ([&early[..], &early[..], b"HTTP/1.1 304 Not Modified\r\n\r\n"].concat(), None),
        (short.to_vec(), Some(Code::BodyTruncated)),
        (long[..30].to_vec(), Some(Code::OriginClosed)),
        (stray, None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nBad\r\n\r\n0".to_vec(), Some(Code::BadHead)),
    ] {
        for in_frames in [false, true] {
            let (first, second) = (long.clone(), next.clone());
            let server = Server::start(move |mut peer, number| {
                let (first, second) = (first.clone(), second.clone());
                async move {
                    // A second connection is closed at once, so that nothing is asked again there.
                    if number == 0 && peer.request().await.is_some() {
                        peer.send(first).await;
                        peer.request().await;
                        peer.send(second).await;
                    }
                }
            })
            .await;
            let rig = Rig::new();
            let mut asked = request("GET", &server, RequestBody::None);
            asked.in_frames = in_frames;
            rig.fetch(asked).collect().await.unwrap();
            let mut asked = request("POST", &server, RequestBody::None);
            asked.in_frames = in_frames;
            let got = rig.fetch(asked).collect().await;
            assert_eq!(got.as_ref().err().map(penstock_engine::Error::code), code, "{got:?}");
            if let Ok(got) = got {
                assert!(got.status == 304 || got.bytes == long[long.len() - 16_384..]);
            }
            rig.check().await;
        }
    }
}
