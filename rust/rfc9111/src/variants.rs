//! Which of many responses that are stored under one key a request selects, without a look at each (RFC 9111, section 4.1).

use super::policy::Languages;
use super::stored::Stored;
use super::vary::{Kind, names_all_beside_the_key, preferred};
use penstock_http::wire::list::Lines;

/// Where the responses that are stored under one key are found: by the hash of the values that select them, so that a
/// request is compared with those alone that it selects, however many there are.
#[derive(Debug)]
pub struct Variants {
    /// The sets of fields by which they vary, each once: an origin has few.
    names: Vec<Box<[Box<[u8]>]>>,
    /// Hashes, and the place of the response that each selects, in order.
    places: Vec<(u64, u32)>,
}

impl Variants {
    /// Those of responses, in the order of their places.
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

    /// Whether any request selects each of them.
    pub fn are_open(&self) -> bool {
        self.names.iter().all(|names| names.is_empty())
    }

    /// The places of those that a request selects, and of those that it may for the language that it prefers. Each of them
    /// is to be compared.
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
