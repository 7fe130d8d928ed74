//! Values by name, of which a limited number have a name of their own.

use std::collections::{BTreeMap, btree_map};
use std::ops::AddAssign;

/// The name that all names above the limit share.
pub const OTHER: &str = "other";

/// The default limit of names. Arbitrary: each is some hundred series of metrics.
const NAMES_LIMIT: usize = 256;

/// Values by name, in the order of the names. Names above the limit share one value, under [`OTHER`].
#[derive(Debug, Clone)]
pub struct ByName<T> {
    values: BTreeMap<Box<str>, T>,
    limit: usize,
}

impl<T> ByName<T> {
    /// No names yet, and at most `limit` of them, besides [`OTHER`].
    pub const fn new(limit: usize) -> Self {
        Self { values: BTreeMap::new(), limit }
    }

    /// The value of `name`, or of [`OTHER`] if there is no room for it. `make` gets the name that the value has.
    pub fn get_or_insert_with(&mut self, name: &str, make: impl FnOnce(&str) -> T) -> &mut T {
        let has_name = self.values.contains_key(name) || self.values.len() < self.limit;
        let name = if has_name { name } else { OTHER };
        self.values.entry(name.into()).or_insert_with(|| make(name))
    }

    /// The value of `name`, if it has one of its own.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.values.get(name)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All names with their values.
    pub fn iter(&self) -> btree_map::Iter<'_, Box<str>, T> {
        self.values.iter()
    }

    /// All names with their values, which can be changed.
    pub fn iter_mut(&mut self) -> btree_map::IterMut<'_, Box<str>, T> {
        self.values.iter_mut()
    }
}

impl<T: Default> ByName<T> {
    /// The value of `name`, or of [`OTHER`] if there is no room for it.
    pub fn entry(&mut self, name: &str) -> &mut T {
        self.get_or_insert_with(name, |_| T::default())
    }
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self::new(NAMES_LIMIT)
    }
}

impl<'a, T> IntoIterator for &'a ByName<T> {
    type Item = (&'a Box<str>, &'a T);
    type IntoIter = btree_map::Iter<'a, Box<str>, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut ByName<T> {
    type Item = (&'a Box<str>, &'a mut T);
    type IntoIter = btree_map::IterMut<'a, Box<str>, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: Default + for<'a> AddAssign<&'a T>> AddAssign<&Self> for ByName<T> {
    fn add_assign(&mut self, other: &Self) {
        for (name, value) in other {
            *self.entry(name) += value;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pairs(values: &ByName<u64>) -> Vec<(&str, u64)> {
        values.iter().map(|(name, count)| (&**name, *count)).collect()
    }

    #[test]
    fn names_above_the_limit_share_one_value() {
        let mut values = ByName::<u64>::new(2);
        for name in ["b", "a", "c", "d", "b", "c"] {
            *values.entry(name) += 1;
        }
        assert_eq!(pairs(&values), [("a", 1), ("b", 2), (OTHER, 3)]);
        assert_eq!((values.len(), values.is_empty()), (3, false));
    }

    #[test]
    fn a_value_is_made_once_with_the_name_that_it_has() {
        let mut values = ByName::new(1);
        let mut made = Vec::new();
        for name in ["a", "b", "c", "a"] {
            values.get_or_insert_with(name, |name| made.push(name.to_owned()));
        }
        assert_eq!(made, ["a", OTHER]);
    }

    #[test]
    fn values_are_added_by_name_within_the_limit() {
        let (mut sums, mut more) = (ByName::<u64>::new(1), ByName::<u64>::default());
        *sums.entry("a") += 1;
        for name in ["a", "b", "c"] {
            *more.entry(name) += 10;
        }
        sums += &more;
        sums += &more;
        assert_eq!(pairs(&sums), [("a", 21), (OTHER, 40)]);
    }

    #[test]
    fn by_default_256_names_have_values_of_their_own() {
        let mut values = ByName::<u64>::default();
        for number in 0..1000 {
            *values.entry(&number.to_string()) += 1;
        }
        assert_eq!((values.len(), *values.entry("255"), *values.entry(OTHER)), (257, 1, 744));
    }
}
