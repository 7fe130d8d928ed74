//! Bodies that the embedded origin makes up.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep_until};

/// A body.
pub(super) enum Made {
    /// So many bytes, in pieces like this one, or a text.
    Whole { left: u64, piece: Bytes },
    /// Events at their times.
    Ticks(Ticks),
}

const CHOICE: &str = r#"{"index":0,"delta":{"content":"token "},"finish_reason":null}"#;
static FILLER: [u8; 65536] = [0x55; 65536];

impl Made {
    pub(super) fn text(text: String) -> Self {
        Self::Whole { left: text.len() as u64, piece: text.into() }
    }

    pub(super) fn filler(left: u64) -> Self {
        Self::Whole { left, piece: Bytes::from_static(&FILLER) }
    }

    /// Leaves the bytes from `first` to `last`.
    pub(super) fn cut(&mut self, first: u64, last: u64) {
        let Self::Whole { left, piece } = self else { return };
        // A text is one piece, and what fills a segment is the same everywhere.
        if *left == piece.len() as u64 {
            let place = |at: u64| usize::try_from(at).unwrap_or(piece.len()).min(piece.len());
            *piece = piece.slice(place(first)..place(last + 1));
        }
        *left = last + 1 - first;
    }
}

/// What an event says.
enum Kind {
    /// The events of a topic, of which the first was published at this time: seconds since 1970.
    Topic(f64),
    /// So many tokens, and an end.
    Tokens(u64),
}

/// Events, of which each has its time.
pub(super) struct Ticks {
    kind: Kind,
    start: Instant,
    every: Duration,
    next: u64,
    sleep: Pin<Box<Sleep>>,
}

impl Ticks {
    fn new(kind: Kind, start: Instant, every: Duration, next: u64) -> Self {
        Self { kind, start, every, next, sleep: Box::pin(sleep_until(start.into())) }
    }

    /// The events of a topic, so many a second since `start`, which is `clock` in seconds since 1970. From the number `next`
    /// on, or from now on.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "events of a run")]
    pub(super) fn events(start: Instant, clock: f64, rate: f64, next: Option<u64>) -> Self {
        let now = (start.elapsed().as_secs_f64() * rate).ceil() as u64;
        let every = Duration::from_secs_f64(1.0 / rate);
        Self::new(Kind::Topic(clock), start, every, next.unwrap_or(now).min(now))
    }

    /// So many tokens.
    pub(super) fn tokens(count: u64, seconds: f64) -> Self {
        Self::new(Kind::Tokens(count), Instant::now(), Duration::from_secs_f64(seconds), 0)
    }

    /// Since the start.
    #[expect(clippy::cast_precision_loss, reason = "events of a run")]
    fn due(&self) -> Duration {
        self.every.mul_f64(self.next as f64)
    }

    fn text(&self) -> Option<String> {
        let number = self.next;
        match self.kind {
            Kind::Topic(clock) => {
                let published = clock + self.due().as_secs_f64();
                Some(format!("id: {number}\ndata: {{\"n\":{number},\"t\":{published:.6}}}\n\n"))
            }
            Kind::Tokens(count) if number < count => {
                Some(format!("data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{CHOICE}]}}\n\n"))
            }
            Kind::Tokens(count) if number == count => Some("data: [DONE]\n\n".to_owned()),
            Kind::Tokens(_) => None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        let Some(text) = self.text() else { return Poll::Ready(None) };
        let due = self.start + self.due();
        if Instant::now() < due {
            self.sleep.as_mut().reset(due.into());
            std::task::ready!(self.sleep.as_mut().poll(context));
        }
        self.next += 1;
        Poll::Ready(Some(text))
    }
}

impl Body for Made {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole { left: 0, .. } => Poll::Ready(None),
            Self::Whole { left, piece } => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len());
                *left -= length as u64;
                Poll::Ready(Some(Ok(Frame::data(piece.slice(..length)))))
            }
            Self::Ticks(ticks) => {
                ticks.poll(context).map(|text| text.map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole { left: 0, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { left, .. } => SizeHint::with_exact(*left),
            Self::Ticks(_) => SizeHint::default(),
        }
    }
}
