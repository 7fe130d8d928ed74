//! Sessions of one request: an open loop over a fixed number of connections.
//!
//! A request that finds all connections busy waits, and its latency counts from when it was due. That is what its sender
//! would see, and what a closed loop hides ("coordinated omission", Tene 2013).

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::client::{Ask, Client};
use crate::context::Context;
use crate::plan;
use crate::record::{Class, count};
use crate::session::Session;

/// Sessions that wait for a connection.
pub(crate) type Waiting = Rc<tokio::sync::Mutex<UnboundedReceiver<Session>>>;

/// The part that a session asks for, if it asks for one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a resource"
)]
fn part(session: &mut Session, ranges: plan::Ranges) -> Option<(u64, u64)> {
    let (is_part, place) = (session.random.uniform() < ranges.share, session.random.uniform());
    let first = (place * ranges.within.saturating_sub(ranges.length) as f64) as u64;
    is_part.then_some((first, ranges.length))
}

/// Makes the requests of waiting sessions over one connection, until the queue is closed.
pub(crate) async fn serve(
    context: Rc<Context>,
    requests: plan::Requests,
    waiting: Waiting,
    left: Rc<RefCell<u64>>,
) {
    let mut client = Client::new(Rc::clone(&context));
    loop {
        let Some(mut session) = waiting.lock().await.recv().await else { return };
        // A reader with a network of its own has a connection of its own: what the kernel received ahead is of one network.
        let link = session.link(context.plan.seed, &requests.networks);
        let mut own = link.map(|link| Client::over(Rc::clone(&context), Some(link), session.due));
        let client = own.as_mut().unwrap_or(&mut client);
        let range = requests.range.and_then(|ranges| part(&mut session, ranges));
        match context.place(&requests.path, session.title) {
            Ok(url) => {
                let ask = Ask {
                    url: &url,
                    class: Class::Request,
                    due: session.due,
                    range,
                    fields: &[],
                    body: None,
                    keep: false,
                    wanted: None,
                };
                // Recorded by the client.
                let _recorded = client.get(&ask).await;
            }
            Err(failure) => client.failed(Class::Request, &failure),
        }
        count(&context.live.ended, 1);
        *left.borrow_mut() -= 1;
    }
}
