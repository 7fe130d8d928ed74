//! An index of the responses under one key, by the values that select them (RFC 9111, section 4.1).

use super::policy::Languages;
use super::stored::Stored;
use super::vary::{Kind, names_all_beside_the_key, preferred};
use penstock_http::wire::list::Lines;

/// The responses under one key, by the hash of the values that select them. A request is compared only with the
/// responses that it selects, whatever their number.
#[derive(Debug)]
pub struct Variants {
    /// The sets of fields by which they vary, each once: an origin has only a few.
    names: Vec<Box<[Box<[u8]>]>>,
    /// Hashes, each with the index of the response that it selects, sorted.
    places: Vec<(u64, u32)>,
}

impl Variants {
    /// Builds the index of responses.
    pub fn of<'a>(stored: impl Iterator<Item = &'a Stored>) -> Self {
        let (mut names, mut places): (Vec<Box<[_]>>, _) = (Vec::new(), Vec::new());
        for (place, stored) in (0_u32..).zip(stored) {
            let selection = &stored.selection;
            if !names.contains(&selection.names) {
                names.push(selection.names.clone());
            }
            let language = stored.language();
            for kind in &selection.kinds {
                places.push((kind.hash, place));
                let preferring = language.and_then(|language| kind.preferring(&selection.names, language));
                places.extend(preferring.map(|hash| (hash, place)));
            }
        }
        places.sort_unstable();
        Self { names, places }
    }

    /// Whether every request selects each of the responses.
    pub fn are_open(&self) -> bool {
        self.names.iter().all(|names| names.is_empty())
    }

    /// The indexes of the responses that a request may select, by its values or its preferred language. The caller
    /// compares each of them.
    pub(super) fn places(
        &self,
        request: &Lines<'_>,
        languages: Languages,
    ) -> impl Iterator<Item = usize> + Clone {
        let preferred = (languages == Languages::Preferred).then(|| preferred(request)).flatten();
        let mut hashes = Vec::with_capacity(2 * self.names.len());
        for names in self.names.iter().filter(|names| names_all_beside_the_key(names, request)) {
            let asked = Kind::of(names, request, languages);
            hashes.extend(preferred.as_ref().and_then(|language| asked.preferring(names, language)));
            hashes.push(asked.hash);
        }
        hashes.into_iter().flat_map(|hash| {
            let first = self.places.partition_point(|(other, _)| *other < hash);
            let of_hash = self.places[first..].iter().take_while(move |(other, _)| *other == hash);
            of_hash.map(|(_, place)| *place as usize)
        })
    }
}
