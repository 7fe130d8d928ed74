//! Subscribers that a worker has admitted to a topic of the edge's hubs.
//!
//! A subscriber is kept here until the worker attaches it to the response, or reads its events. Attached, it is served as
//! on a native route, without the worker. The worker renews its lease; without that the subscription ends by itself.

use std::sync::Arc as Plain;
use std::time::Duration;

use super::fetching::{Fetched, Fetching, Guest};
use super::flow::{Credit, send_flow};
use super::member::Member;
use super::message::{Message, Subscribe};
use super::plan::Topics;
use super::shared::Shared;
use super::wire::Wire;
use crate::error::Result;
use crate::hub::{Admission, Reading, admit, pass_on};
use crate::stream::{ResponseHead, Timings};
use crate::sync::{Arc, lock};
use crate::wire::Fields;

/// Asks for the admission of the subscriber in `order`, sends the head, and sends its events as far as `credit` goes,
/// unless the subscriber is taken out of `fetched` first.
pub(super) async fn subscribe(
    shared: Arc<Shared>,
    member: Arc<Member>,
    wire: Plain<Wire>,
    order: Subscribe,
    fetched: Fetching,
    credit: Plain<Credit>,
) {
    let flow = order.flow;
    let leased = order.lease.map(|(number, time)| member.lend(number, time));
    let (topics, admission) = match ask(&shared, order).await {
        Ok(answer) => answer,
        Err(error) => return wire.send(&Message::Fail(flow, error)),
    };
    let head = ResponseHead { head: admission.head(), timings: Timings::default(), reused: true };
    let admitted = match admission {
        Admission::Admitted(admitted) => admitted,
        Admission::Over => {
            wire.send(&Message::Head(flow, head));
            return wire.send(&Message::End(flow, Duration::ZERO, Fields::default()));
        }
    };
    lock(&fetched).insert(flow, Fetched::Guest(Guest { admitted, topics, leased }));
    wire.send(&Message::Head(flow, head));
    if !credit.some().await {
        return;
    }
    let Some(Fetched::Guest(Guest { admitted, topics, leased })) = lock(&fetched).remove(&flow) else {
        return;
    };
    let (feed, stream) = shared.supplies.stream();
    let lease = leased.as_ref().map(|leased| leased.lease.clone());
    tokio::join!(
        pass_on(Arc::clone(&topics.hub), admitted, lease, feed),
        send_flow(Plain::new(stream), wire, flow, credit, None),
    );
}

async fn ask(shared: &Shared, order: Subscribe) -> Result<(Arc<Topics>, Admission)> {
    let Subscribe { plan, topic, after, tenant, address, .. } = order;
    let topics = shared.plan(plan).await?.topics()?;
    let reading = Reading { topic, after, terms: topics.terms, tenant, address };
    let admission = admit(Arc::clone(&topics.hub), reading).await?;
    Ok((topics, admission))
}
