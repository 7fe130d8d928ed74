//! The application's lane: requests that the application answers, and what it writes to them.
//!
//! The engine is a reverse proxy to the application over an exchange in memory ([`link`]). A request is offered to
//! the [`Queue`] of its site; the [`Dispatcher`] of the queue has it taken, by the application in this process or by
//! a worker process, which answers on its [`Far`] half. The engine checks what is written against its own framing
//! ([`Checker`]): a response that breaks it costs the connection, and never shifts the responses after it.

mod checker;
mod dispatcher;
mod ended;
#[cfg(not(loom))]
mod head;
mod link;
mod pace;
mod queue;
#[cfg(not(loom))]
mod remote;
mod reports;
mod session;
mod sign;
#[cfg(not(loom))]
mod socket;

pub use checker::{Checker, asks_to_switch};
pub use dispatcher::{Dispatcher, Processes};
pub use ended::{Ended, Outcome, Stages};
#[cfg(not(loom))]
pub(crate) use head::serialise;
pub use link::{Attachment, Command, Content, Far, File, Foreign, Loss, Near, News, Note, Over, link};
#[cfg(not(loom))]
pub use link::{RelayOrder, Subscription};
pub use queue::{Ends, Place, Queue, QueueStats, Request};
#[cfg(not(loom))]
pub use remote::{Expected, Inspection, Order, RemoteEdge, Source, Subscribing};
pub use reports::{Completion, Fault, Reports};
pub use session::TlsSession;
#[cfg(not(loom))]
pub(crate) use sign::Sign;
#[cfg(not(loom))]
pub use socket::ClientSocket;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
