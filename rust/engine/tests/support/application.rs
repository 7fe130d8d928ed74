//! What an application does with a request: the far side of the link, awaitable.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use penstock_engine::Code;
use penstock_engine::app::{Content, Far, Loss, News, Outcome, Request};
use penstock_engine::stream::Stream;

pub(crate) struct Exchange {
    pub(crate) head: String,
    pub(crate) body: Option<Stream>,
    pub(crate) far: Far,
}

impl Exchange {
    pub(crate) fn new(request: Request) -> Self {
        let head = String::from_utf8(request.head).unwrap();
        Self { head, body: request.body, far: request.far }
    }

    /// Writes and flushes.
    pub(crate) fn write(&self, bytes: impl AsRef<[u8]>) {
        self.far.write(Content::Bytes(bytes.as_ref().to_vec()));
        self.far.flush();
    }

    /// Writes memory that it is told the end of; `owner` counts who holds it.
    pub(crate) fn lend(&self, owner: &Arc<Vec<u8>>) {
        struct Lent(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Lent {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        self.far.write(Content::Foreign(Box::new(Lent(Arc::clone(owner)))));
        self.far.flush();
    }

    /// A whole response, and the end of the exchange.
    pub(crate) fn answer(self, response: impl AsRef<[u8]>) {
        self.far.write(Content::Bytes(response.as_ref().to_vec()));
        self.far.finish();
    }

    /// The first news that `pick` finds something in.
    async fn news<T>(&self, mut pick: impl FnMut(News) -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(found) = pick(self.far.take()) {
                return Poll::Ready(found);
            }
            self.far.listen(context.waker());
            pick(self.far.take()).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// How the client's half has ended; the code of the failure, if it is one.
    pub(crate) async fn lost(&self) -> Option<Code> {
        self.news(|news| news.lost).await.code()
    }

    pub(crate) async fn outcome(&self) -> Outcome {
        self.news(|news| news.outcome).await
    }

    pub(crate) async fn tunnel(&self) -> Stream {
        self.news(|news| news.tunnel).await
    }

    /// Waits until no more than `low` bytes are unsent.
    pub(crate) async fn below(&self, low: usize) {
        while self.far.await_below(low) {
            self.news(|news| (news.unsent <= low).then_some(())).await;
        }
    }

    /// Reads the body to its end.
    pub(crate) async fn read(&self) -> Result<Vec<u8>, Code> {
        let Some(body) = &self.body else { return Ok(Vec::new()) };
        read(body).await
    }
}

trait Reason {
    fn code(&self) -> Option<Code>;
}

impl Reason for Loss {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Closed => None,
            Self::Failed(error) => Some(error.code()),
        }
    }
}

/// Reads a stream to its end.
pub(crate) async fn read(stream: &Stream) -> Result<Vec<u8>, Code> {
    let mut bytes = Vec::new();
    while let Some(piece) = poll_fn(|context| stream.poll_next(context)).await {
        bytes.extend_from_slice(&piece.map_err(|error| error.code())?);
    }
    Ok(bytes)
}
