//! The network with a site on it, and what these are held to whatever clients and origins speak.

use std::sync::Arc as Plain;
use std::time::Duration;

use super::plan::{Answer, ORIGINS, Sessions};
use super::rig::{NAME, OF_EVENTS, Rig};
use super::world::World;
use super::{codes, events, origin, sessions};
use crate::app::TlsSession;
use crate::edge::client::{Addresses, Client};
use crate::edge::listen;
use crate::net::simulated::{Conditions, Door, End, Network};
use crate::net::{Connection, Socket, Transport};
use crate::runtime::{Threads, turn_by};
use crate::simulation::{Clock, Trace, Verdict, hold, in_simulated_time, pass, settle};
use crate::store::Purge;
use crate::sync::{Arc, Mutex, lock};

/// What is performed on a stage.
pub(super) trait Scene {
    /// Has everyone do what can be done now.
    async fn go_on(&mut self, trace: &mut Trace) -> Verdict;

    /// Lets time pass, of which clients look up at each `look`.
    async fn wait(&mut self, mut time: u64, look: u64, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        while time > 0 {
            let now = time.min(look);
            pass(clock, Duration::from_millis(now)).await;
            self.go_on(trace).await?;
            time -= now;
        }
        Ok(())
    }

    /// Lets time pass as long as `goes_on`, in whole seconds, of which there are `most`.
    async fn wait_while(
        &mut self,
        goes_on: impl Fn(&Self) -> bool,
        most: u64,
        look: u64,
        clock: &mut Clock,
        trace: &mut Trace,
    ) -> Verdict {
        for _ in 0..most {
            if !goes_on(self) {
                break;
            }
            self.wait(1000, look, clock, trace).await?;
        }
        Ok(())
    }
}

/// Does `work` in simulated time, whose turns are those of the thread.
pub(super) fn perform(work: impl AsyncFnOnce(&mut Clock) -> Verdict) -> Verdict {
    in_simulated_time(async {
        turn_by(tokio::runtime::Handle::current().metrics());
        work(&mut Clock::new()).await
    })
}

/// What the origins of a plan do.
#[derive(Default)]
pub(super) struct Cast<'a> {
    /// A second one is asked beside a slow one.
    pub(super) hedges: bool,
    /// How they answer, in the order of what they are asked; after the last one, well.
    pub(super) answers: &'a [Answer],
    /// What that of events tells; after the last one, what does not end.
    pub(super) scripts: &'a [events::Script],
    /// They speak HTTP/2.
    pub(super) sessions: Option<&'a Sessions>,
}

pub(super) struct Stage {
    pub(super) network: Network,
    pub(super) rig: Rig,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) told: Arc<Mutex<events::World>>,
    sessions: Option<Sessions>,
    /// None but the simulation's own, which is not one of an engine.
    threads: Plain<Threads>,
    /// Where the edge's ends of the clients' connections are.
    places: Vec<(usize, usize)>,
    /// Some client speaks HTTP/2, whose frames are counted as the messages that they carry.
    has_streams: bool,
}

impl Stage {
    pub(super) fn new(conditions: &Conditions, cast: &Cast<'_>) -> Self {
        let network = Network::new(conditions.clone());
        network.name(NAME, vec![origin::address(0)]);
        network.name(OF_EVENTS, vec![origin::of_events()]);
        (0..ORIGINS).for_each(|origin| network.set_door(origin::address(origin), Door::Open));
        network.set_door(origin::of_events(), Door::Open);
        let rig = Rig::new(cast.hedges, cast.sessions.map(|sessions| sessions.window));
        let site = Arc::clone(&rig.site);
        tokio::spawn(async move { site.keep_room().await });
        let threads = Plain::new(Threads::start(0).expect("none"));
        let mut world = World::new(cast.answers, cast.hedges);
        world.faults.extend(cast.sessions.iter().flat_map(|sessions| sessions.faults.iter().copied()));
        Self {
            network,
            rig,
            world: Arc::new(Mutex::new(world)),
            told: Arc::new(Mutex::new(events::World::new(cast.scripts))),
            sessions: cast.sessions.cloned(),
            threads,
            places: Vec::new(),
            has_streams: false,
        }
    }

    /// Has all but the clients do what can be done now.
    pub(super) async fn go_on(&self, trace: &mut Trace) -> Verdict {
        settle().await;
        match &self.sessions {
            Some(sessions) => sessions::serve_all(&self.network, &self.world, sessions),
            None => origin::serve_all(&self.network, &self.world),
        }
        events::serve_all(&self.network, &self.told);
        let verdict = lock(&self.world).tell(trace);
        lock(&self.told).tell(trace);
        verdict
    }

    /// A new connection to the edge.
    fn pair(&mut self) -> (End, Socket, Addresses) {
        let (here, there) = self.network.pair();
        self.places.push(there.place());
        let port = u16::try_from(self.places.len()).unwrap_or(u16::MAX);
        let remote = ([198, 51, 100, 1], port).into();
        let addresses = Addresses::new(Some(remote), Some(([203, 0, 113, 1], 80).into()));
        (here, Socket::Simulated(there), addresses)
    }

    /// A client connects, to speak HTTP/1.1.
    pub(super) fn connect(&mut self) -> End {
        let (here, there, addresses) = self.pair();
        listen::hand_out(&self.rig.site, &self.threads, there, addresses);
        here
    }

    /// A client connects, and has agreed to speak HTTP/2. It is served from where a handshake ends, in plain text.
    pub(super) fn connect_for_streams(&mut self) -> End {
        self.has_streams = true;
        let (here, there, addresses) = self.pair();
        let site = &self.rig.site;
        let session = TlsSession {
            version: 0x0304,
            suite: 0x1301,
            server_name: None,
            protocol: b"h2".as_slice().into(),
            certificates: Vec::new(),
            is_resumed: false,
        };
        let network = addresses.ip().map(|address| site.clients.network(address));
        let connection = Arc::new(Connection::new(Transport::Plain(there)));
        let client = Client::new(connection, addresses, network, Some(Plain::new(session)), None);
        tokio::spawn(listen::serve(Arc::new(site.admit()), client));
        here
    }

    /// An origin refuses connections, does not answer, or takes them.
    pub(super) fn set_door(&self, origin: usize, door: u8) {
        let door = match door {
            0 => Door::Refuses,
            1 => Door::Silent,
            _ => Door::Open,
        };
        self.network.set_door(origin::address(origin), door);
    }

    /// What holds after each step.
    pub(super) fn check(&self) -> Verdict {
        let (pool, cache) = (self.rig.pool.stats(), self.rig.cache.stats());
        hold!(pool.live_bytes <= self.rig.pool.budget(), "{} bytes of the pool are in use", pool.live_bytes);
        hold!(cache.used <= cache.limit, "the cache takes {} bytes, of {}", cache.used, cache.limit);
        Ok(())
    }

    /// What holds when no client is there: no connection, no memory and no task is left, and the counters have what the network saw.
    pub(super) async fn end(self, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        let Rig { pool, meter, origins, cache, hub, ledger, site, .. } = &self.rig;
        let counts = site.counts();
        hold!((counts.connections, counts.active) == (0, 0), "at rest the site has {counts:?}");
        let stats = origins.stats();
        for endpoint in &stats.endpoints {
            hold!((endpoint.active, endpoint.waiting) == (0, 0), "at rest there is {endpoint:?}");
        }
        let accepted = lock(&self.world).accepted + lock(&self.told).accepted;
        hold!(stats.counts.opened <= accepted, "{} connections opened, of {accepted}", stats.counts.opened);
        let sums = ledger.sums();
        codes::note(sums.iter().flat_map(|sums| &sums.failures), trace);
        let sent: u64 = sums.iter().map(|sums| sums.sent).sum();
        let seen = self.places.iter().map(|place| self.network.taken_from(*place)).sum::<u64>();
        hold!(
            self.has_streams || sent == seen,
            "{sent} bytes are counted as sent to clients, and it were {seen}"
        );
        cache.purge(Purge::All, false).map_err(|error| error.to_string())?;
        origins.close();
        site.close();
        hub.close();
        settle().await;
        pass(clock, Duration::from_secs(2)).await;
        self.network.stop();
        settle().await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        hold!(tasks == 0, "{tasks} tasks are left at rest");
        hold!(meter.live() == 0, "{} streams are left at rest", meter.live());
        let live = pool.stats().live_bytes;
        hold!(live == 0, "{live} bytes of the pool are in use at rest");
        Ok(())
    }
}
