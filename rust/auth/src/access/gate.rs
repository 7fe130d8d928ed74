//! What stands before a route: who decides about its requests, and what that is remembered by.
//!
//! A request that is remembered passes in [`Gate::look`], without an allocation: one hash, one short lock. Any other waits in
//! [`Gate::ask`], which can be dropped at any time.

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

/// Who decides about the requests of a route.
#[derive(Debug)]
pub struct Gate {
    /// By which the keys of the route differ from those of others.
    route: String,
    /// By which what is decided of it is counted.
    number: u16,
    /// What requests are remembered by that are asked about.
    parts: Box<[Part]>,
    decider: Decider,
    /// For how long what was verified is remembered at most.
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
    /// The target that the cache and the origin are to see; none: as it came.
    pub target: Option<String>,
}

/// How far [`Gate::begin`] has come.
#[derive(Debug)]
pub enum Begun {
    /// The request is let in.
    Pass(Pass),
    /// It is being asked.
    Waiting(Waiting),
}

/// Why a request was not let in.
#[derive(Debug)]
pub struct Refusal {
    /// What is logged.
    pub error: Error,
    /// What was decided, if that is why.
    pub decision: Option<Arc<Decision>>,
}

impl Refusal {
    /// How, if that was decided.
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
    /// Before the route that is counted as `name`; the keys of `route` are its own. `secret` is that of all gates which share
    /// `decisions`.
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

    /// What is decided about a request, where nobody has to be waited for; none: it is to be asked.
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

    /// As [`Gate::look`]; it is asked if need be, once for all who want to know.
    ///
    /// # Errors
    /// It is not let in, or nobody has said so.
    ///
    /// # Cancellation
    /// The question stays, and its answer is remembered.
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

    /// The beginning of [`Gate::ask`], for those who wait in their own way. When the question is settled [`Gate::end`] goes on; who
    /// has waited for as long as it says has [`Decisions::expire`] settle it.
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

    /// What the outcome of a question means for a request; none: it is to be asked anew.
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

    /// Whose decisions these are.
    pub fn decisions(&self) -> &Arc<Decisions> {
        &self.decisions
    }

    async fn outcome(&self, mut waiting: Waiting) -> Outcome {
        let until = waiting.until().into();
        if let Ok(outcome) = timeout_at(until, &mut waiting).await {
            return outcome;
        }
        self.decisions.expire(&waiting);
        // It is settled, if not by that then by what came before it.
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

    /// What decides in the engine; none where somebody is asked.
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

    /// Notes that what was let in runs. None: it was revoked since, and is to be asked anew.
    pub fn hold(&self, pass: &Pass) -> Option<Permit> {
        Decisions::hold(&self.decisions, pass.key, Arc::clone(&pass.decision), pass.revocations)
    }

    /// As [`Decisions::revoke`], of the requests of this route that have these values for the parts of its key.
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
    /// By what it was let in.
    pub fn decision(&self) -> &Arc<Decision> {
        &self.decision
    }
}

/// What a decision means for a request.
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

/// Whether a grant is for this request at all, whoever it was given to.
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
