//! Playlists that the sessions of a thread share: the same text is read once, and kept as long as a session uses it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::playlist::{Media, Playlist, Variant, parse};

/// Texts that are kept at least before unused ones are dropped.
const FEW: usize = 64;

/// A playlist.
#[derive(Debug, Clone)]
pub(crate) enum Shared {
    Multivariant(Rc<[Variant]>),
    Media(Rc<Media>),
}

impl Shared {
    fn is_used(&self) -> bool {
        match self {
            Self::Multivariant(variants) => Rc::strong_count(variants) > 1,
            Self::Media(media) => Rc::strong_count(media) > 1,
        }
    }
}

/// Playlists by their texts. Two places with the same text have the same playlist: what is in it is relative to its place.
#[derive(Debug, Default)]
pub(crate) struct Playlists {
    known: RefCell<HashMap<Box<[u8]>, Shared>>,
}

impl Playlists {
    /// What a text says.
    pub(crate) fn read(&self, text: &[u8]) -> Result<Shared, &'static str> {
        let mut known = self.known.borrow_mut();
        if let Some(found) = known.get(text) {
            return Ok(found.clone());
        }
        let made = match parse(&String::from_utf8_lossy(text))? {
            Playlist::Multivariant(variants) => Shared::Multivariant(variants.into()),
            Playlist::Media(mut media) => {
                media.segments.shrink_to_fit();
                Shared::Media(media.into())
            }
        };
        // The table grows by doubling: before it does, unused ones make room.
        if known.len() >= FEW && known.len() == known.capacity() {
            known.retain(|_, each| each.is_used());
        }
        known.insert(text.into(), made.clone());
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(playlists: &Playlists, number: usize) -> Rc<Media> {
        let text = format!("#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:{number}\n#EXTINF:4,\na.m4s\n");
        let Ok(Shared::Media(media)) = playlists.read(text.as_bytes()) else { panic!() };
        media
    }

    #[test]
    fn the_same_text_is_one_playlist_and_another_is_another() {
        let playlists = Playlists::default();
        let (first, again) = (media(&playlists, 7), media(&playlists, 7));
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!((first.sequence, media(&playlists, 8).sequence), (7, 8));
        assert!(playlists.read(b"<html>").is_err());
    }

    #[test]
    fn what_no_session_uses_is_dropped_and_what_one_uses_is_not() {
        let playlists = Playlists::default();
        let used = media(&playlists, 0);
        for number in 1..100_000 {
            media(&playlists, number);
        }
        assert!(playlists.known.borrow().len() <= 4 * FEW);
        assert!(Rc::ptr_eq(&used, &media(&playlists, 0)));
    }
}
