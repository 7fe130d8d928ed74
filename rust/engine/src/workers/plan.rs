//! The plans of a worker's relays and subscriptions. A plan is made once for each description.

use std::collections::HashMap;

use tokio::sync::oneshot;

use crate::error::{Code, Error, Result};
use crate::hub::{Hub, Terms};
use crate::relay_spec::Relay;
use crate::sync::{Arc, Mutex, lock};

/// The limit of plans that are kept; above it all are dropped. An application has as many as it has origins and
/// settings, not as many as it has requests. Arbitrary.
const MOST: usize = 4096;

/// What a description stands for. Clones share it.
#[derive(Debug, Clone)]
pub enum Plan {
    /// The plan of relays.
    Relay(Arc<Relay>),
    /// The plan of subscriptions.
    Topics(Arc<Topics>),
}

impl Plan {
    /// # Errors
    /// `BAD_CONFIGURATION`: it is of something else.
    pub(super) fn relay(self) -> Result<Arc<Relay>> {
        match self {
            Self::Relay(relay) => Ok(relay),
            Self::Topics(_) => Err(other()),
        }
    }

    /// # Errors
    /// `BAD_CONFIGURATION`: it is of something else.
    pub(super) fn topics(self) -> Result<Arc<Topics>> {
        match self {
            Self::Topics(topics) => Ok(topics),
            Self::Relay(_) => Err(other()),
        }
    }
}

fn other() -> Error {
    Code::BadConfiguration.error("a worker process asks for one thing by the description of another")
}

/// The hub whose topics are subscribed to, and the terms of subscribers.
#[derive(Debug)]
pub struct Topics {
    /// The hub.
    pub hub: Arc<Hub>,
    /// The terms.
    pub terms: Terms,
}

/// The supervisor's answer with a new plan.
pub type Planned = oneshot::Sender<Result<Plan>>;

#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<HashMap<Vec<u8>, Plan>>);

impl Plans {
    /// The plan of `description`. `order` asks for a new one.
    ///
    /// # Errors
    /// The error of the description. `ENGINE_CLOSED`: the edge is being closed.
    pub(super) async fn get(
        &self,
        description: Vec<u8>,
        order: impl FnOnce(Vec<u8>, Planned),
    ) -> Result<Plan> {
        if let Some(plan) = lock(&self.0).get(&description) {
            return Ok(plan.clone());
        }
        let (planned, plan) = oneshot::channel();
        order(description.clone(), planned);
        let closed = |_| Code::EngineClosed.error("the edge is being closed");
        let plan = plan.await.map_err(closed)??;
        let mut known = lock(&self.0);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(description, plan.clone());
        Ok(plan)
    }
}
