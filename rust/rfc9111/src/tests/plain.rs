//! The parsed Cache-Control, in the form of the reference.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{ResponseControl, Scope, reference};

pub(crate) fn plain(control: &ResponseControl) -> reference::Control {
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs());
    let scope = |scope: &Scope| match scope {
        Scope::Nothing => None,
        Scope::Response => Some(BTreeSet::new()),
        Scope::Fields(names) => Some(names.iter().map(|name| name.to_vec()).collect()),
    };
    let ResponseControl { max_age, s_maxage, stale_while_revalidate, stale_if_error, .. } = *control;
    reference::Control {
        spans: [max_age, s_maxage, stale_while_revalidate, stale_if_error].map(seconds),
        scopes: [scope(&control.no_cache), scope(&control.private)],
        flags: [
            control.no_store,
            control.public,
            control.must_revalidate,
            control.proxy_revalidate,
            control.must_understand,
            control.immutable,
        ],
    }
}
