//! How many subscribe: of a hub in all, for a tenant, and from an address.

use std::collections::HashMap;

use super::Limits;
use crate::error::{Code, Result};
use crate::sync::{Arc, Mutex, lock};

/// Who subscribes, as far as that is limited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guest<'a> {
    pub(crate) tenant: Option<&'a str>,
    pub(crate) address: Option<&'a str>,
}

/// The subscribers of a hub.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_name: HashMap<Name, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    Tenant(Box<str>),
    Address(Box<str>),
}

/// A subscriber that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    guests: Arc<Guests>,
    names: Box<[Name]>,
}

impl Guests {
    /// Counts one, if there may be one more.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(self: &Arc<Self>, guest: Guest<'_>, limits: &Limits) -> Result<Counted> {
        let tenant =
            guest.tenant.zip(limits.per_tenant).map(|(name, most)| (Name::Tenant(name.into()), most));
        let address =
            guest.address.zip(limits.per_address).map(|(name, most)| (Name::Address(name.into()), most));
        let mut counts = lock(&self.0);
        if let Some(most) = limits.most.filter(|most| counts.all >= *most) {
            return Err(Code::TooManyRequests.error(format!("the hub has {most} subscribers already")));
        }
        for (name, most) in tenant.iter().chain(&address) {
            if counts.by_name.get(name).is_some_and(|count| count >= most) {
                let who = match name {
                    Name::Tenant(name) => format!("the tenant {name:?}"),
                    Name::Address(name) => format!("the address {name}"),
                };
                return Err(Code::TooManyRequests.error(format!("{who} has {most} subscriptions already")));
            }
        }
        counts.all += 1;
        let names: Box<[Name]> = tenant.into_iter().chain(address).map(|(name, _)| name).collect();
        for name in &names {
            *counts.by_name.entry(name.clone()).or_default() += 1;
        }
        Ok(Counted { guests: Arc::clone(self), names })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = lock(&self.guests.0);
        counts.all -= 1;
        for name in &self.names {
            if let Some(count) = counts.by_name.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.by_name.remove(name);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_limit_refuses_by_itself_and_nobody_who_was_refused_counts() {
        let guests = Arc::new(Guests::default());
        let limits = Limits { per_topic: None, per_tenant: Some(2), per_address: Some(1), most: Some(3) };
        let guest = |tenant, address| Guest { tenant: Some(tenant), address: Some(address) };
        let enter = |guest| guests.enter(guest, &limits);
        let first = enter(guest("a", "1")).unwrap();
        assert!(enter(guest("b", "1")).unwrap_err().detail().contains("address 1"));
        let second = enter(guest("a", "2")).unwrap();
        assert!(enter(guest("a", "3")).unwrap_err().detail().contains("tenant \"a\""));
        let third = enter(Guest::default()).unwrap();
        assert!(enter(Guest::default()).unwrap_err().detail().contains("the hub has 3"));
        drop(first);
        drop(enter(guest("a", "1")).unwrap());
        drop((second, third));
        let counts = lock(&guests.0);
        assert_eq!((counts.all, counts.by_name.len()), (0, 0));
    }
}
