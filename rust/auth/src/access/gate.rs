//! The gate of a route: who decides about its requests, and the keys of the decisions.
//!
//! A request with a cached decision passes in [`Gate::look`], without an allocation: one hash, one short lock. Any other
//! waits in [`Gate::ask`], which can be dropped at any time.

use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::asked::Asked;
use super::decision::{Decision, Denial, Grant, Verdict, is_on, unix_seconds};
use super::decisions::Permit;
use super::decisions::{Decisions, Joined, Whose};
use super::inbox::Request;
use super::key::{Part, Secret};
use super::question::{Outcome, Waiting};
use super::table::Key;
use super::verifier::{Decider, Verifier};
use penstock_error::{Code, Error, Result};
use penstock_http::wire::Fields;
use penstock_memory::sync::Arc;

/// Decides about the requests of a route.
#[derive(Debug)]
pub struct Gate {
    /// Makes the keys of the route differ from those of others.
    route: String,
    /// Its row of the counts.
    number: u16,
    /// The parts of a request that make its key, if a hook decides.
    parts: Box<[Part]>,
    decider: Decider,
    /// The longest time for which a verified token is cached.
    lifetime: Duration,
    decisions: Arc<Decisions>,
    secret: Secret,
}

/// A request that was let in.
#[derive(Debug)]
pub struct Pass {
    decision: Arc<Decision>,
    key: Key,
    revocations: u64,
    /// The target for the cache and the origin, without the token; `None`: as the client sent it.
    pub target: Option<String>,
}

/// The result of [`Gate::begin`].
#[derive(Debug)]
pub enum Begun {
    /// The request is let in.
    Pass(Pass),
    /// The hook is being asked.
    Waiting(Waiting),
}

/// Why a request was not let in.
#[derive(Debug)]
pub struct Refusal {
    /// The error for the log.
    pub error: Error,
    /// The decision, if it is the reason.
    pub decision: Option<Arc<Decision>>,
}

impl Refusal {
    /// The denial, if a decision is the reason.
    pub fn denial(&self) -> Option<&Denial> {
        self.decision.as_ref()?.denial()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, decision: None }
    }
}

impl Gate {
    /// The gate of the route that is counted as `name`. `route` makes its keys its own. All gates that share `decisions`
    /// share `secret`.
    pub fn new(
        name: &str,
        route: String,
        parts: Vec<Part>,
        decider: Decider,
        lifetime: Duration,
        decisions: Arc<Decisions>,
        secret: Secret,
    ) -> Self {
        let number = decisions.route(name);
        Self { route, number, parts: parts.into(), decider, lifetime, decisions, secret }
    }

    /// The decision about a request, if that needs no waiting; `None`: [`Gate::ask`] is needed.
    ///
    /// # Errors
    /// It is not let in.
    pub fn look(&self, asked: &Asked<'_>) -> std::result::Result<Option<Pass>, Refusal> {
        match &self.decider {
            Decider::Ask => {
                let key = self.key(asked);
                match self.decisions.look(&key, Instant::now()) {
                    Some((decision, revocations)) => pass(decision, key, revocations, asked, None).map(Some),
                    None => Ok(None),
                }
            }
            Decider::Verify(verifier) => self.verify(verifier.as_ref(), asked).map(Some),
        }
    }

    /// As [`Gate::look`]; asks the hook if there is no decision, once for all requests with the
    /// same key.
    ///
    /// # Errors
    /// It is not let in, or the hook has not answered.
    ///
    /// # Cancellation The question stays open, and its answer is cached.
    pub async fn ask(&self, asked: &Asked<'_>) -> std::result::Result<Pass, Refusal> {
        loop {
            let waiting = match self.begin(asked)? {
                Begun::Pass(pass) => return Ok(pass),
                Begun::Waiting(waiting) => waiting,
            };
            let outcome = self.outcome(waiting).await;
            if let Some(pass) = self.end(outcome, asked)? {
                return Ok(pass);
            }
        }
    }

    /// The first half of [`Gate::ask`], for callers that wait by themselves. After the question is settled, call
    /// [`Gate::end`]; after [`Waiting::until`], have [`Decisions::expire`] settle it.
    ///
    /// # Errors
    /// Those of [`Gate::ask`].
    pub fn begin(&self, asked: &Asked<'_>) -> std::result::Result<Begun, Refusal> {
        if let Decider::Verify(verifier) = &self.decider {
            return self.verify(verifier.as_ref(), asked).map(Begun::Pass);
        }
        let key = self.key(asked);
        match self.decisions.join(&key, Instant::now(), || self.request(asked))? {
            Joined::Decided(decision, revocations) => {
                pass(decision, key, revocations, asked, None).map(Begun::Pass)
            }
            Joined::Waiting(waiting) => Ok(Begun::Waiting(waiting)),
        }
    }

    /// The second half of [`Gate::ask`]. `None`: begin again.
    ///
    /// # Errors
    /// Those of [`Gate::ask`].
    pub fn end(&self, outcome: Outcome, asked: &Asked<'_>) -> std::result::Result<Option<Pass>, Refusal> {
        match outcome {
            Outcome::Decided(decision, revocations) => {
                pass(decision, self.key(asked), revocations, asked, None).map(Some)
            }
            Outcome::Failed(error) => Err(error.into()),
            Outcome::Void => Ok(None),
        }
    }

    /// The decisions that this gate uses.
    pub fn decisions(&self) -> &Arc<Decisions> {
        &self.decisions
    }

    async fn outcome(&self, mut waiting: Waiting) -> Outcome {
        let until = waiting.until().into();
        if let Ok(outcome) = timeout_at(until, &mut waiting).await {
            return outcome;
        }
        self.decisions.expire(&waiting);
        // Settled by this, or by something before it.
        waiting.await
    }

    fn verify(&self, verifier: &dyn Verifier, asked: &Asked<'_>) -> std::result::Result<Pass, Refusal> {
        let token = verifier.remembered_by(asked);
        let key =
            self.secret.key_of_token(&self.route, token.unwrap_or(asked.target.as_bytes())).on(self.number);
        let known = token.and_then(|_| self.decisions.look(&key, Instant::now()));
        let (decision, revocations) = if let Some(known) = known {
            known
        } else {
            let now = unix_seconds();
            let refused = |error| Refusal { decision: verifier.denial(&error), error };
            let grant = verifier.verify(asked, now).map_err(refused)?;
            let left = grant.expires.map(|expires| Duration::from_secs(expires.saturating_sub(now)));
            if token.is_some() {
                let lifetime = left.map_or(self.lifetime, |left| left.min(self.lifetime));
                self.decisions.remember(key, Verdict::Allow(grant), lifetime)?
            } else {
                let lifetime = left.unwrap_or(self.lifetime);
                let decision = self.decisions.decide(Verdict::Allow(grant), lifetime, Instant::now())?;
                (decision, self.decisions.revocations(&key))
            }
        };
        pass(decision, key, revocations, asked, verifier.stripped(asked))
    }

    /// The verifier; `None` if a hook decides.
    pub fn verifier(&self) -> Option<&dyn Verifier> {
        match &self.decider {
            Decider::Ask => None,
            Decider::Verify(verifier) => Some(verifier.as_ref()),
        }
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        self.decisions.timeout()
    }

    /// Registers the response. `None`: the decision was revoked since, and the request must ask
    /// again.
    pub fn hold(&self, pass: &Pass) -> Option<Permit> {
        Decisions::hold(&self.decisions, pass.key, Arc::clone(&pass.decision), pass.revocations)
    }

    /// As [`Decisions::revoke`], for requests of this route with these values for the parts of the key.
    pub fn revoke(&self, values: &[Option<Vec<u8>>], cut: bool) -> (usize, usize) {
        let key = self.secret.key_of(&self.route, values).on(self.number);
        self.decisions.revoke(Whose::Key(key), cut)
    }

    fn key(&self, asked: &Asked<'_>) -> Key {
        self.secret.key(&self.route, &self.parts, asked).on(self.number)
    }

    fn request(&self, asked: &Asked<'_>) -> Request {
        let mut headers = Fields::default();
        asked.headers.all(&mut |name, value| headers.push(name, value));
        Request {
            route: self.route.clone(),
            method: asked.method.to_owned(),
            target: asked.target.to_owned(),
            authority: asked.authority.to_owned(),
            remote: asked.remote.map(str::to_owned),
            headers,
            key: self.parts.iter().map(|part| part.first(asked)).collect(),
        }
    }
}

impl Pass {
    /// The decision that let it in.
    pub fn decision(&self) -> &Arc<Decision> {
        &self.decision
    }
}

/// Applies a decision to a request.
fn pass(
    decision: Arc<Decision>,
    key: Key,
    revocations: u64,
    asked: &Asked<'_>,
    target: Option<String>,
) -> std::result::Result<Pass, Refusal> {
    let denied = match &decision.verdict {
        Verdict::Allow(grant) => match covers(grant, asked, target.as_deref()) {
            Ok(()) => return Ok(Pass { decision, key, revocations, target }),
            Err(error) => return Err(error.into()),
        },
        Verdict::Deny(_) => Code::AccessDenied.error("the request was not authorised"),
    };
    Err(Refusal { error: denied, decision: Some(decision) })
}

/// Whether a grant covers this request.
fn covers(grant: &Grant, asked: &Asked<'_>, target: Option<&str>) -> Result<()> {
    let path = target.map_or(asked.path(), |target| target.split_once('?').map_or(target, |(path, _)| path));
    if !grant.paths.is_empty() && !grant.paths.iter().any(|pattern| is_on(pattern, &[path])) {
        return Err(Code::TokenPathNotCovered.error("what was granted is for other paths"));
    }
    if grant.address.is_some() && grant.address.as_deref() != asked.remote {
        return Err(Code::TokenWrongAddress.error("what was granted is for another address"));
    }
    Ok(())
}
