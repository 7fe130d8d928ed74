// Reads the two kinds of HLS playlist (RFC 8216 §4), as much of them as the demo's player needs.

/** The first variant of a multivariant playlist: its codecs and the URL of its media playlist. */
export function parseMultivariant(text, base) {
  const lines = text.split("\n").map((line) => line.trim());
  const at = lines.findIndex((line) => line.startsWith("#EXT-X-STREAM-INF:"));
  const codecs = /CODECS="([^"]+)"/.exec(lines[at] ?? "");
  const uri = lines.slice(at + 1).find((line) => line && !line.startsWith("#"));
  if (!codecs || !uri) throw new Error("the multivariant playlist names no variant with its codecs");
  return { codecs: codecs[1], url: new URL(uri, base).href };
}

/** A media playlist: its target duration in seconds and its segments, each with its sequence number. */
export function parseMedia(text, base) {
  const segments = [];
  let target = 0;
  let number = 0;
  let map = null;
  let discontinuity = false;
  for (const line of text.split("\n").map((each) => each.trim())) {
    const [tag, value] = split(line);
    if (tag === "#EXT-X-TARGETDURATION") target = Number(value);
    else if (tag === "#EXT-X-MEDIA-SEQUENCE") number = Number(value);
    else if (tag === "#EXT-X-DISCONTINUITY") discontinuity = true;
    else if (tag === "#EXT-X-MAP") map = new URL(/URI="([^"]+)"/.exec(value)[1], base).href;
    else if (line && !line.startsWith("#")) {
      segments.push({ number: number++, url: new URL(line, base).href, map, discontinuity });
      discontinuity = false;
    }
  }
  if (!target || !segments.length) throw new Error("the media playlist has no segments");
  return { target, segments };
}

function split(line) {
  const at = line.indexOf(":");
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
}
