// Plays a live HLS stream of fragmented MP4 through Media Source Extensions, and keeps it near the live edge.

import { parseMedia, parseMultivariant } from "./playlist.js";

const START_SEGMENTS = 3; // RFC 8216 §6.3.3: a client should not start closer to the end than three target durations.
const TOO_FAR_BEHIND = 12; // Seconds of buffer after which the player jumps forward: a tab that was asleep.
const KEPT_BEHIND = 20; // Seconds already seen that stay in the buffer.

export class LivePlayer {
  /** `report(problem)` is called with an Error when a round fails, and with null when one succeeds. */
  constructor(video, url, report) {
    this.video = video;
    this.url = url;
    this.report = report;
    this.appended = 0; // Segments put into the buffer since the start.
    this.next = null; // Sequence number of the segment wanted next.
    this.map = null; // The initialisation segment the buffer was last given.
  }

  /** Plays until the page goes away; a round that fails is reported and tried again. */
  async run() {
    const MediaSourceClass = globalThis.ManagedMediaSource ?? globalThis.MediaSource;
    if (!MediaSourceClass) {
      this.video.src = this.url; // A browser without MSE is one that plays HLS itself.
      return;
    }
    const variant = await this.persist(async () => parseMultivariant(await text(this.url), this.absolute(this.url)));
    const source = new MediaSourceClass();
    this.video.disableRemotePlayback = true; // ManagedMediaSource opens only without it.
    this.video.src = URL.createObjectURL(source);
    await once(source, "sourceopen");
    this.buffer = source.addSourceBuffer(`video/mp4; codecs="${variant.codecs}"`);
    for (;;) {
      const wait = await this.persist(() => this.round(variant.url));
      await pause(wait);
    }
  }

  /** Seconds of media ahead of the picture being shown. */
  get ahead() {
    const ranges = this.video.buffered;
    return ranges.length ? ranges.end(ranges.length - 1) - this.video.currentTime : 0;
  }

  /** Fetches the playlist and all that is new in it; returns the seconds until the next round. */
  async round(url) {
    const { target, segments } = parseMedia(await text(url), url);
    if (this.next === null) this.next = segments.at(-START_SEGMENTS)?.number ?? segments[0].number;
    const fresh = segments.filter((each) => each.number >= this.next);
    for (const segment of fresh) await this.append(segment);
    await this.keepNearTheEdge();
    // RFC 8216 §6.3.4: after a playlist that had nothing new, half the target duration is waited.
    return fresh.length ? target : target / 2;
  }

  async append(segment) {
    // Where timestamps do not go on from the last segment (the start, a loop, a gap after a long sleep) "sequence" mode
    // places the segment at the end of what there is; back in "segments" mode that offset holds for those that follow.
    const jump = segment.discontinuity || segment.number !== this.next || this.map === null;
    if (segment.map !== this.map) {
      await this.put(await bytes(segment.map));
      this.map = segment.map;
    }
    const media = await bytes(segment.url);
    if (jump) this.buffer.mode = "sequence";
    await this.put(media);
    if (jump) this.buffer.mode = "segments";
    this.next = segment.number + 1;
    this.appended += 1;
  }

  async put(media) {
    const done = once(this.buffer, "updateend");
    this.buffer.appendBuffer(media);
    await done;
    if (this.video.error) throw new Error(`the video element: ${this.video.error.message}`);
  }

  async keepNearTheEdge() {
    const { video, buffer } = this;
    const ranges = video.buffered;
    if (!ranges.length) return;
    const now = video.currentTime;
    const last = ranges.length - 1;
    const lost = now < ranges.start(last); // In a gap, or in a range that nothing will be added to.
    if (lost || this.ahead > TOO_FAR_BEHIND) video.currentTime = Math.max(ranges.start(last), ranges.end(last) - 4);
    if (now - ranges.start(0) > 2 * KEPT_BEHIND) {
      const done = once(buffer, "updateend");
      buffer.remove(0, now - KEPT_BEHIND);
      await done;
    }
    // Refused autoplay is the browser's word; the picture then waits for a click (see main.js).
    if (video.paused) video.play().catch(() => {});
  }

  absolute(url) {
    return new URL(url, location.href).href;
  }

  async persist(attempt) {
    for (;;) {
      try {
        const result = await attempt();
        this.report(null);
        return result;
      } catch (problem) {
        this.report(problem);
        await pause(1);
      }
    }
  }
}

async function get(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${new URL(response.url).pathname}: ${response.status}`);
  return response;
}

const text = async (url) => (await get(url)).text();
const bytes = async (url) => (await get(url)).arrayBuffer();
const once = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
