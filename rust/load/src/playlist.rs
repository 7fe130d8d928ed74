//! Playlists of HLS as a player needs them (RFC 8216): renditions, segments, and whether more will come.

/// A rendition of a multivariant playlist.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The peak bitrate, in bits a second.
    pub bandwidth: f64,
    /// The URI of its media playlist, as it is written.
    pub uri: String,
}

/// A segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Seconds.
    pub duration: f64,
    /// As it is written.
    pub uri: String,
    /// First byte and length, if it is a part of a resource.
    pub range: Option<(u64, u64)>,
}

/// A media playlist.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Media {
    /// Seconds of the longest segment, rounded.
    pub target: f64,
    /// The number of the first segment.
    pub sequence: u64,
    /// The URI of the initialisation section.
    pub map: Option<String>,
    /// In their order.
    pub segments: Vec<Segment>,
    /// Nothing will be added.
    pub ended: bool,
}

impl Media {
    /// Seconds of all segments.
    pub fn length(&self) -> f64 {
        self.segments.iter().map(|segment| segment.duration).sum()
    }

    /// Seconds of the segments before the one of this number.
    pub fn length_before(&self, number: u64) -> f64 {
        let count = usize::try_from(number.saturating_sub(self.sequence)).unwrap_or(usize::MAX);
        self.segments.iter().take(count).map(|segment| segment.duration).sum()
    }

    /// The number of the segment that is so many seconds after the beginning; the last one beyond the end.
    pub fn number_at(&self, seconds: f64) -> u64 {
        let mut end = 0.0;
        let at = self.segments.iter().position(|segment| {
            end += segment.duration;
            seconds < end
        });
        self.sequence + at.unwrap_or_else(|| self.segments.len().saturating_sub(1)) as u64
    }
}

/// A playlist.
#[derive(Debug, Clone, PartialEq)]
pub enum Playlist {
    /// Renditions, from the lowest bitrate on.
    Multivariant(Vec<Variant>),
    /// Segments.
    Media(Media),
}

/// Seconds of the longest segment: sums of more would be no time. Arbitrary.
const LONGEST: f64 = 86400.0;
/// The highest number of a first segment: those after it have numbers as well.
const LAST: u64 = 1 << 63;

/// Reads a playlist.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<Playlist, &'static str> {
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    if !lines.next().is_some_and(|line| line.trim_start_matches('\u{feff}').starts_with("#EXTM3U")) {
        return Err("it does not begin with #EXTM3U");
    }
    let (mut variants, mut media) = (Vec::new(), Media::default());
    let (mut bandwidth, mut duration, mut range) = (None, None, None);
    // Where the range of the segment before ended: one without an offset begins there.
    let mut end = 0;
    for line in lines {
        let Some(tag) = line.strip_prefix("#EXT") else {
            if line.starts_with('#') {
                continue;
            }
            let uri = line.to_owned();
            if let Some(bandwidth) = bandwidth.take() {
                variants.push(Variant { bandwidth, uri });
            } else if let Some(duration) = duration.take() {
                media.segments.push(Segment { duration, uri, range: range.take() });
            }
            continue;
        };
        let (name, value) = tag.split_once(':').unwrap_or((tag, ""));
        match name {
            "INF" => {
                let number = value.split(',').next().unwrap_or_default().trim();
                duration = Some(seconds(number).ok_or("an EXTINF has no duration of at most a day")?);
            }
            "-X-STREAM-INF" => {
                let text = attribute(value, "BANDWIDTH").ok_or("a variant has no BANDWIDTH")?;
                bandwidth = Some(number(text).ok_or("the BANDWIDTH of a variant is no number")?);
            }
            "-X-BYTERANGE" => {
                let (length, offset) = value.split_once('@').unwrap_or((value, ""));
                let length: u64 = length.trim().parse().map_err(|_| "an EXT-X-BYTERANGE has no length")?;
                let first: u64 = offset.trim().parse().unwrap_or(end);
                end = first.saturating_add(length);
                range = Some((first, length));
            }
            "-X-TARGETDURATION" => {
                media.target = seconds(value).ok_or("EXT-X-TARGETDURATION is no number of at most a day")?;
            }
            "-X-MEDIA-SEQUENCE" => {
                let sequence = value.trim().parse().ok().filter(|sequence| *sequence <= LAST);
                media.sequence = sequence.ok_or("EXT-X-MEDIA-SEQUENCE is no number up to 2^63")?;
            }
            "-X-MAP" => media.map = attribute(value, "URI").map(str::to_owned),
            "-X-ENDLIST" => media.ended = true,
            _ => {}
        }
    }
    if variants.is_empty() {
        return Ok(Playlist::Media(media));
    }
    variants.sort_by(|left, right| left.bandwidth.total_cmp(&right.bandwidth));
    Ok(Playlist::Multivariant(variants))
}

fn seconds(text: &str) -> Option<f64> {
    number(text).filter(|seconds| *seconds <= LONGEST)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// The value of an attribute, without its quotes.
fn attribute<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = list;
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (value, next) = quoted.split_once('"')?;
                (value, next.trim_start_matches(','))
            }
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim() == name {
            return Some(value);
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_sorted_and_commas_in_quotes_are_no_ends() {
        let text = "#EXTM3U\n#EXT-X-STREAM-INF:CODECS=\"avc1,mp4a\",BANDWIDTH=900,RESOLUTION=1x1\nhigh.m3u8\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=100\nlow.m3u8\n";
        let Ok(Playlist::Multivariant(variants)) = parse(text) else { panic!() };
        assert_eq!(
            variants.iter().map(|each| each.uri.as_str()).collect::<Vec<_>>(),
            ["low.m3u8", "high.m3u8"]
        );
        assert_eq!(variants.iter().map(|each| each.bandwidth).collect::<Vec<_>>(), [100.0, 900.0]);
    }

    #[test]
    fn a_media_playlist_has_its_segments_and_ranges() {
        let text = "#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n#EXT-X-MEDIA-SEQUENCE:17\r\n#EXT-X-MAP:URI=\"init.mp4\"\r\n\
                    #EXTINF:3.5,title\r\n#EXT-X-BYTERANGE:10@5\r\na.m4s\r\n# a comment\r\n#EXTINF:4\r\n\
                    #EXT-X-BYTERANGE:7\r\na.m4s\r\n#EXTINF:2,\r\nb.m4s\r\n#EXT-X-ENDLIST\r\n";
        let Ok(Playlist::Media(media)) = parse(text) else { panic!() };
        assert_eq!((media.target, media.sequence, media.ended), (4.0, 17, true));
        assert_eq!(media.map.as_deref(), Some("init.mp4"));
        let found: Vec<_> = media.segments.iter().map(|each| (each.duration, each.range)).collect();
        assert_eq!(found, [(3.5, Some((5, 10))), (4.0, Some((15, 7))), (2.0, None)]);
        let places = [0.0, 3.4, 3.5, 7.4, 7.5, 99.0].map(|seconds| media.number_at(seconds));
        assert_eq!(places, [17, 17, 18, 18, 19, 19]);
        let before = [16, 17, 18, 99].map(|number| media.length_before(number));
        assert!(
            before.iter().zip([0.0, 0.0, 3.5, 9.5]).all(|(found, expected)| (found - expected).abs() < 1e-9)
        );
    }

    #[test]
    fn what_is_no_playlist_is_refused() {
        assert!(parse("").is_err());
        assert!(parse("<html>").is_err());
        assert!(parse("#EXTM3U\n#EXTINF:x,\na\n").is_err());
        assert!(parse("#EXTM3U\n#EXT-X-STREAM-INF:RESOLUTION=1x1\na\n").is_err());
    }

    #[test]
    fn lengths_and_numbers_that_would_overflow_are_refused() {
        for wrong in
            ["-X-TARGETDURATION:1e20", "INF:1e20,", "-X-MEDIA-SEQUENCE:18446744073709551615", "INF:-1,"]
        {
            let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT{wrong}\na.ts\n");
            assert!(parse(&text).is_err(), "{wrong}");
        }
    }
}
