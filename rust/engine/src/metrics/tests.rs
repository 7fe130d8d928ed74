//! The board of an engine: what is on it, and what it says when something is wrong.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::{Board, Format, Page, Parts, Status, StatusLimits};
use crate::app::{Ends, Queue, Request, link};
use crate::edge::{
    Asked, ClientLimits, EdgeConfig, Heads, Ledger, ListenOptions, Listener, Routes, Shown, Site, Supplies,
};
use crate::origin::Origins;
use crate::origin::testing::{READS, origins};
use crate::pool::testing::config;
use crate::pool::{Pool, Purpose};
use crate::runtime::Threads;
use crate::stream::{FlowConfig, Meter};
use crate::sync::Arc;
use crate::wire::{BodyLimits, IncomingLimits};
use crate::workers::{Worker, Workers};

/// Twice what an engine thread takes that has nothing to do.
const HUNG: Duration = Duration::from_secs(2);
const BEHIND: Duration = Duration::from_millis(50);

struct Rig {
    status: Status,
    threads: Arc<Threads>,
    pool: Pool,
    ledger: Arc<Ledger>,
    meter: Arc<Meter>,
    origins: Arc<Origins>,
    runtime: tokio::runtime::Runtime,
}

impl Rig {
    fn new() -> Self {
        let pool = Pool::new(config(4 << 20)).unwrap();
        let threads = Arc::new(Threads::start(2).unwrap());
        let (meter, ledger) = (Arc::new(Meter::default()), Arc::new(Ledger::new(2)));
        let origins = Arc::new(origins(&pool, HUNG));
        let parts = Parts {
            version: "1.2.3",
            pool: pool.clone(),
            threads: Arc::clone(&threads),
            origins: vec![Arc::clone(&origins)],
            meter: Arc::clone(&meter),
            ledger: Arc::clone(&ledger),
            tracer: None,
        };
        let limits = StatusLimits { hung: HUNG, behind: BEHIND, viewers: 1 };
        let status = Status::new(Arc::new(Board::new(parts)), limits);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { status, threads, pool, ledger, meter, origins, runtime }
    }

    fn show(&self, page: Page) -> Shown {
        let asked = Asked { method: "GET", target: "/", authority: "", accept: b"" };
        self.runtime.block_on(self.status.page(page, asked)).unwrap()
    }

    fn check(&self, page: Page, status: u16, part: &str) {
        let shown = self.show(page);
        assert_eq!(shown.status, status, "{}", shown.text);
        assert!(shown.text.contains(part), "{}", shown.text);
        serde_json::from_str::<serde_json::Value>(&shown.text).unwrap();
    }

    fn site(&self, queue: Option<&Queue>) -> Arc<Site> {
        let body = BodyLimits { chunk_extension_bytes: 64, trailer_bytes: 64 };
        let config = EdgeConfig {
            head: IncomingLimits { line_bytes: 1024, head_bytes: 4096, head_fields: 16 },
            body,
            max_body: None,
            idle_timeout: None,
            head_timeout: None,
            body_timeout: None,
            body_total_timeout: None,
            least_rate: None,
            head_patience: Duration::ZERO,
            body_patience: Duration::ZERO,
            write_timeout: None,
            stall_grace: Duration::from_secs(1),
            overload_after: None,
            trusts_trace_context: false,
            clients: ClientLimits { client_connections: None, client_requests: None, client_prefix: 64 },
            linger: Duration::from_secs(1),
            max_event: 4096,
            event_backlog: None,
            http2: None,
        };
        let site = Arc::new(Site::new(config, self.supplies(), Routes::default(), None, queue.cloned()));
        self.status.board.add_site(&site);
        site
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            pool: self.pool.clone(),
            flow: FlowConfig { floor: 64 << 10, ceiling: 1 << 20 },
            reads: READS,
            meter: Arc::clone(&self.meter),
            origins: vec![Arc::clone(&self.origins)],
            ledger: Arc::clone(&self.ledger),
            heads: Arc::new(Heads::new(&self.pool)),
            tracer: None,
        }
    }

    fn listen(&self, site: &Arc<Site>) {
        let options = ListenOptions { backlog: 1, reuse_port: false, write_timeout: None };
        Listener::tcp("127.0.0.1:0".parse().unwrap(), options).unwrap().serve(site, &self.threads);
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_engine_thread_that_hangs_is_told_of() {
    let rig = Rig::new();
    until("all threads turn", || rig.show(Page::Health).status == 200);
    let (release, released) = mpsc::channel::<()>();
    rig.threads.spawn(1, || async move {
        let _ = released.recv();
    });
    until("the hang is seen", || rig.show(Page::Health).status == 503);
    rig.check(Page::Health, 503, "\"healthy\": false");
    rig.check(Page::Health, 503, "1 of 2 engine threads hang");
    rig.check(Page::Ready, 503, "1 of 2 engine threads hang");
    release.send(()).unwrap();
    until("it is over", || rig.show(Page::Health).status == 200);
}

#[test]
fn a_full_pool_takes_no_work() {
    let rig = Rig::new();
    until("the engine is ready", || rig.show(Page::Ready).status == 200);
    let mut held = Vec::new();
    while let Ok(slab) = rig.pool.writer(256 << 10, Purpose::Bulk) {
        held.push(slab);
    }
    until("the engine is well", || rig.show(Page::Health).status == 200);
    rig.check(Page::Ready, 503, "the pool is full");
    drop(held);
    rig.check(Page::Ready, 200, "the pool is open");
}

#[test]
fn a_site_that_does_not_listen_any_more_takes_no_work() {
    let rig = Rig::new();
    let site = rig.site(None);
    rig.check(Page::Ready, 503, "0 of 1 sites listen");
    rig.listen(&site);
    until("the engine is ready", || rig.show(Page::Ready).status == 200);
    site.drain(Duration::ZERO);
    rig.check(Page::Ready, 503, "0 of 1 sites listen");
    site.close();
    drop(site);
    until("no site listens", || rig.show(Page::Ready).text.contains("0 of 0 sites listen"));
    rig.check(Page::Ready, 503, "0 of 0 sites listen");
}

#[test]
fn an_application_that_takes_no_requests_is_not_ready() {
    let rig = Rig::new();
    let queue = Queue::new(1, None, 0);
    let site = rig.site(Some(&queue));
    rig.listen(&site);
    let ends = Ends::default();
    let (_near, far) = link();
    let (head, socket) = (Vec::new(), None);
    let request = Request {
        head,
        body: None,
        chunked: false,
        ends,
        is_proven: true,
        thread: 0,
        far,
        socket,
        edge: None,
    };
    queue.offer(request).unwrap();
    rig.check(Page::Ready, 503, "1 of 1 requests wait");
    queue.take().unwrap().far.finish();
    // The rig takes nothing by itself: the sign that `show` asks for is owed from here on.
    queue.listen(Waker::noop());
    queue.ask_sign();
    until("it has owed a sign for too long", || rig.show(Page::Ready).status == 503);
    rig.check(Page::Ready, 503, "the event loop has owed a sign for");
    site.close();
}

/// The event loop of a worker, which looks for requests when it is woken, unless it hangs.
struct Loop {
    queue: Queue,
    hangs: AtomicBool,
}

impl Wake for Loop {
    fn wake(self: Arc<Self>) {
        if !self.hangs.load(Ordering::Relaxed) {
            self.queue.take();
        }
    }
}

#[test]
fn an_application_of_which_no_worker_gives_a_sign_is_not_ready() {
    let rig = Rig::new();
    let queue = Queue::new(1, None, 0);
    let site = rig.site(Some(&queue));
    rig.listen(&site);
    let workers = Arc::new(Workers::new(rig.supplies(), &queue, &rig.threads));
    rig.status.board.add_workers(&workers);
    until("no worker is connected", || rig.show(Page::Ready).status == 503);
    rig.check(Page::Ready, 503, "each of 0 workers that take them has owed a sign for");
    let directory = tempfile::tempdir().unwrap();
    let loops = [1, 2].map(|number: u32| {
        let path = directory.path().join(number.to_string());
        let listener = UnixListener::bind(&path).unwrap();
        let turning = Arc::new(Loop { queue: Queue::new(1, None, 0), hangs: AtomicBool::new(false) });
        turning.queue.listen(&Waker::from(Arc::clone(&turning)));
        let parent = i32::try_from(std::process::id()).unwrap();
        let worker = Arc::new(Worker::new(rig.supplies(), turning.queue.clone(), parent, Arc::default()));
        worker.serve(listener.into(), &rig.threads).unwrap();
        workers.add(number, 1, path);
        (turning, worker)
    });
    until("they are there", || workers.stats().coming == 2);
    workers.switch(1);
    until("they take requests", || rig.show(Page::Ready).status == 200);
    loops[0].0.hangs.store(true, Ordering::Relaxed);
    until("one hangs, and the other takes requests", || {
        workers.stats().silent > 2 * BEHIND && rig.show(Page::Ready).status == 200
    });
    loops[1].0.hangs.store(true, Ordering::Relaxed);
    until("both hang", || workers.stats().owed > BEHIND);
    rig.check(Page::Ready, 503, "each of 2 workers that take them has owed a sign for");
    let text = rig.status.board.metrics(Format::Text);
    for sample in ["penstock_workers{state=\"current\"} 2", "penstock_worker_generation 1"] {
        assert!(text.contains(sample), "{text}");
    }
    for (turning, _) in &loops {
        turning.hangs.store(false, Ordering::Relaxed);
        turning.queue.take();
    }
    until("they go on", || rig.show(Page::Ready).status == 200);
    workers.retire(1);
    assert_eq!((workers.stats().current, workers.stats().retired), (1, 1));
    for (turning, worker) in loops {
        worker.close();
        turning.queue.abandon();
    }
    until("they are gone", || workers.stats().current + workers.stats().retired == 0);
    site.close();
}

#[test]
fn every_family_is_written_once_in_either_format() {
    let rig = Rig::new();
    for (format, end) in [(Format::Text, "\n"), (Format::OpenMetrics, "\n# EOF\n")] {
        let text = rig.status.board.metrics(format);
        assert!(text.ends_with(end), "{text}");
        let families: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert!(families.len() > 40, "{families:?}");
        assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len(), "{families:?}");
        assert!(families.iter().all(|family| family.starts_with("penstock_")), "{families:?}");
        assert!(text.contains("penstock_build_info{version=\"1.2.3\"} 1\n"));
        assert!(text.contains("penstock_engine_thread_busy_seconds_total{thread=\"1\"} "));
    }
}
