// Shows the engine's figures: reads totals once a second, and draws rates and the last minute of each.

const KEPT = 60;
const byId = (id) => document.getElementById(id);

const history = { streams: [], bytes: [], copied: [], added: [] };
let before = null;

/** Reads the figures once and shows them. */
export async function showFigures(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the figures were answered with status ${response.status}`);
  const now = { at: performance.now(), ...(await response.json()) };
  if (before) show(now, before);
  before = now;
}

function show(now, before) {
  const seconds = (now.at - before.at) / 1000;
  const { pool, latency } = now;

  value("streams", now.streams);
  draw("streams", now.streams);
  note("streams", `${now.requests.toLocaleString("en")} requests so far`);

  const rate = (now.bytes_received - before.bytes_received) / seconds;
  value("bytes", ...size(now.bytes_received));
  draw("bytes", rate);
  note("bytes", `${size(rate).join(" ")}/s now`);

  value("pool", ...size(pool.live_bytes));
  byId("pool-meter").style.width = `${(100 * pool.live_bytes) / pool.budget}%`;
  byId("pool-meter").parentElement.dataset.state = pool.state;
  note("pool", `of ${size(pool.budget).join(" ")}, ${pool.state}; peak ${size(pool.peak_bytes).join(" ")}`);

  const reasons = Object.entries(pool.bytes_copied).filter(([, bytes]) => bytes > 0);
  const copied = reasons.reduce((sum, [, bytes]) => sum + bytes, 0);
  value("copied", ...size(copied));
  draw("copied", copied);
  note("copied", reasons.map(([reason, bytes]) => `${size(bytes).join(" ")} ${reason}`).join(", ") || "no reason to copy so far");

  if (latency.added_ms !== null) {
    value("added", latency.added_ms.toFixed(2), "ms");
    draw("added", latency.added_ms);
    note("added", `on top of ${latency.direct_ms.toFixed(2)} ms direct`);
  }
}

function value(id, figure, unit = "") {
  const small = document.createElement("small");
  small.textContent = unit && ` ${unit}`;
  byId(id).replaceChildren(String(figure), small);
}

function note(id, words) {
  byId(`${id}-note`).textContent = words;
  byId(`${id}-note`).title = words;
}

/** A byte count as figure and unit. */
function size(bytes) {
  if (bytes < 1024) return [String(Math.round(bytes)), "B"];
  if (bytes < 1024 ** 2) return [(bytes / 1024).toFixed(bytes < 10240 ? 1 : 0), "KiB"];
  return [(bytes / 1024 ** 2).toFixed(bytes < 10 * 1024 ** 2 ? 1 : 0), "MiB"];
}

const SVG = "http://www.w3.org/2000/svg";

function draw(name, figure) {
  const points = history[name];
  points.push(figure);
  if (points.length > KEPT) points.shift();
  const top = Math.max(...points, Number.MIN_VALUE);
  const at = points.map((each, index) => `${KEPT - points.length + index},${30 - (28 * Math.max(each, 0)) / top}`);
  const area = document.createElementNS(SVG, "path");
  area.setAttribute("d", `M${KEPT - points.length},30 L${at.join(" L")} L${KEPT - 1},30 Z`);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", at.join(" "));
  const svg = byId(`${name}-line`);
  svg.setAttribute("viewBox", `0 0 ${KEPT - 1} 30`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(area, line);
}
