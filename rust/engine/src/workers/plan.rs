//! What a worker's relays and subscriptions go by, made of a description once for all that have the same.

use std::collections::HashMap;

use tokio::sync::oneshot;

use crate::error::{Code, Error, Result};
use crate::hub::{Hub, Terms};
use crate::relay_spec::Relay;
use crate::sync::{Arc, Mutex, lock};

/// Descriptions that are remembered; behind them all are forgotten. An application has as many as it has origins and
/// settings, not as many as it has requests. Arbitrary.
const MOST: usize = 4096;

/// What a description says. Cloning shares it.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Of relays.
    Relay(Arc<Relay>),
    /// Of subscriptions.
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

/// Whose topics are subscribed to, and how subscribers are served.
#[derive(Debug)]
pub struct Topics {
    /// The hub.
    pub hub: Arc<Hub>,
    /// How.
    pub terms: Terms,
}

/// Who makes a plan answers with it.
pub type Planned = oneshot::Sender<Result<Plan>>;

#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<HashMap<Vec<u8>, Plan>>);

impl Plans {
    /// The plan of `description`. `order` has a new one made.
    ///
    /// # Errors
    /// What is wrong with it. `ENGINE_CLOSED`: nobody answers any more.
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
        let nobody = |_| Code::EngineClosed.error("the edge is being closed");
        let plan = plan.await.map_err(nobody)??;
        let mut known = lock(&self.0);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(description, plan.clone());
        Ok(plan)
    }
}
