//! What a plan is made of: what origins answer as by HTTP/1.1, and what they do besides.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::edge::simulation::plan::{self, Fault, Plan, Sessions};

/// The most of a plan: several requests share a connection, and it takes few to have all that there is.
const STEPS: usize = 40;

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let sessions = (200..9000_u32, 1..6_u32, vec(prop::option::weighted(0.3, faults()), 0..40));
    let sessions = sessions.prop_map(|(window, streams, faults)| Sessions { window, streams, faults });
    (plan::plans(), sessions).prop_map(|(mut plan, sessions)| {
        plan.steps.truncate(STEPS);
        Plan { sessions: Some(sessions), ..plan }
    })
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::Refuse),
        2 => Just(Fault::Abandon),
        2 => Just(Fault::Leave),
        2 => any::<bool>().prop_map(Fault::Cut),
        1 => prop_oneof![Just(3_usize), Just(40), Just(1300)].prop_map(Fault::Pings),
        1 => Just(Fault::Deaf),
    ]
}
