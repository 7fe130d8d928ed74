//! A client's side: a small pool, one set of connections, and readers that collect what a fetch delivers.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::framing::Framing;
use penstock_engine::origin::{
    self, Endpoint, OriginLimits, OriginStats, Origins, Passing, Request, RequestBody, Roots, Scheme,
    Timeouts,
};
use penstock_engine::pool::Pool;
use penstock_engine::stream::{Ending, Feed, FlowConfig, Meter, ResponseHead, Stream, channel};
use penstock_engine::{Error, Result};
use tokio::task::JoinHandle;

use crate::server::Server;
pub(crate) use crate::settings::{AMPLE, origin_limits as limits};
use crate::settings::{origins, pool};

/// Short enough to wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(60);

pub(crate) fn timeouts() -> Timeouts {
    Timeouts {
        queue: Some(AMPLE),
        resolve: Some(AMPLE),
        connect: Some(AMPLE),
        tls: Some(AMPLE),
        first_byte: Some(AMPLE),
        between_bytes: Some(AMPLE),
        tunnel: Some(AMPLE),
        total: Some(AMPLE),
        lets_events_pause: false,
    }
}

pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) origins: Arc<Origins>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) flow: FlowConfig,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(limits(), Roots::WebPki)
    }

    pub(crate) fn with(limits: OriginLimits, roots: Roots) -> Self {
        let pool = pool();
        let origins = origins(&pool, limits, roots);
        let flow = FlowConfig { floor: 64 << 10, ceiling: 1 << 20 };
        Self { pool, origins, meter: Arc::default(), flow }
    }

    pub(crate) fn channel(&self, framing: &Framing) -> (Feed, Stream) {
        channel(&self.pool, self.flow, framing, &self.meter)
    }

    pub(crate) fn fetch(&self, request: Request) -> Reply {
        self.fetch_framed(request, &Framing::Raw)
    }

    pub(crate) fn fetch_framed(&self, request: Request, framing: &Framing) -> Reply {
        let (feed, stream) = self.channel(framing);
        let task = tokio::spawn(origin::fetch(Arc::clone(&self.origins), Box::new(request), feed));
        Reply { stream, task }
    }

    pub(crate) async fn get(&self, server: &Server) -> Result<Body> {
        self.fetch(get(server)).collect().await
    }

    /// The error that a plain GET ends with.
    pub(crate) async fn failure(&self, request: Request) -> Error {
        match self.fetch(request).collect().await {
            Ok(body) => panic!("a response of {} bytes instead of an error", body.bytes.len()),
            Err(error) => error,
        }
    }

    pub(crate) fn stats(&self) -> OriginStats {
        self.origins.stats()
    }

    /// (active, idle, waiting) over all endpoints.
    pub(crate) fn connections(&self) -> (usize, usize, usize) {
        self.stats().endpoints.iter().fold((0, 0, 0), |sum, endpoint| {
            (sum.0 + endpoint.active, sum.1 + endpoint.idle, sum.2 + endpoint.waiting)
        })
    }

    /// Sockets that are open to the endpoints that are in use or were lately.
    pub(crate) fn sockets(&self) -> usize {
        sockets_to(&self.ports())
    }

    fn ports(&self) -> Vec<u16> {
        let port = |origin: &str| origin.rsplit(':').next()?.parse().ok();
        self.stats().endpoints.iter().filter_map(|endpoint| port(&endpoint.origin)).collect()
    }

    /// Every test ends here: nothing of the pool is held, no connection is leased, and when the engine has gone, so
    /// have its sockets.
    pub(crate) async fn check(self) {
        assert_eq!(self.pool.stats().live_bytes, 0, "slabs are held after the end");
        let (active, _, waiting) = self.connections();
        assert_eq!((active, waiting), (0, 0), "leases or requests are left");
        assert_eq!(self.meter.live(), 0, "streams are left");
        let ports = self.ports();
        drop(self);
        // A task that was aborted is dropped by the runtime in its own time; and the port of a server that has gone may
        // be another test's by now. But no idle timeout is over by then.
        let closed = async {
            while sockets_to(&ports) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(AMPLE / 2, closed).await.expect("sockets are open that no engine has");
    }
}

/// Sockets that this machine's processes have open to `ports`. What has been closed has no inode, whatever state TCP
/// keeps it in.
fn sockets_to(ports: &[u16]) -> usize {
    let is_open = |row: &str| {
        let mut columns = row.split_whitespace().skip(2);
        let (remote, inode) = (columns.next()?, columns.nth(6)?);
        let port = u16::from_str_radix(remote.rsplit(':').next()?, 16).ok()?;
        Some(ports.contains(&port) && inode != "0")
    };
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .map(|table| table.lines().skip(1).filter(|row| is_open(row) == Some(true)).count())
        .sum()
}

pub(crate) fn request(method: &str, server: &Server, body: RequestBody) -> Request {
    request_to(method, server.endpoint(Scheme::Http), body)
}

pub(crate) fn request_to(method: &str, endpoint: Endpoint, body: RequestBody) -> Request {
    Request {
        endpoint,
        upstream: None,
        method: method.to_owned().into(),
        target: "/".to_owned(),
        authority: "origin.example".into(),
        headers: Arc::default(),
        body,
        timeouts: timeouts(),
        is_proven: true,
        reports: true,
        passing: Passing::Body,
        in_frames: false,
        trace: None,
    }
}

pub(crate) fn get(server: &Server) -> Request {
    request("GET", server, RequestBody::None)
}

/// A fetch under way.
pub(crate) struct Reply {
    pub(crate) stream: Stream,
    pub(crate) task: JoinHandle<()>,
}

/// What a fetch delivered.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) status: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: usize,
    pub(crate) ending: Ending,
    pub(crate) reused: bool,
}

impl Reply {
    pub(crate) async fn head(&self) -> Result<&ResponseHead> {
        poll_fn(|context| self.stream.poll_head(context).map(|head| head.map(drop))).await?;
        Ok(self.stream.head().unwrap())
    }

    /// The bytes of the next frame.
    pub(crate) async fn next(&self) -> Option<Result<Vec<u8>>> {
        poll_fn(|context| self.stream.poll_next(context)).await.map(|frame| frame.map(|frame| frame.to_vec()))
    }

    /// Reads to the end, and waits for the fetch to be over.
    pub(crate) async fn collect(self) -> Result<Body> {
        let result = self.read().await;
        self.task.await.expect("a fetch never panics");
        result
    }

    async fn read(&self) -> Result<Body> {
        let head = self.head().await?;
        let (status, reused) = (head.head.status, head.reused);
        let (mut bytes, mut frames) = (Vec::new(), 0);
        while let Some(frame) = self.next().await {
            bytes.extend(frame?);
            frames += 1;
        }
        Ok(Body { status, bytes, frames, ending: self.stream.ending().unwrap(), reused })
    }

    /// Leaves before the end.
    pub(crate) async fn abandon(self) {
        drop(self.stream);
        self.task.await.expect("a fetch never panics");
    }
}

/// `size` bytes that show where they have been shifted.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    (0..=250).cycle().take(size).collect()
}
