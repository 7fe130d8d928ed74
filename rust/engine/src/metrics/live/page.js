// Shows the events of the status listener. All text goes into text nodes: what clients send is never markup.
"use strict";

const WINDOW = 180_000; // milliseconds of a sparkline
const WIDTH = 180, HEIGHT = 24; // of its drawing
const NONE = "–";
const at = (id) => document.getElementById(id);

// ---- Figures as text

const plural = (count, one, more) => `${amount(count)} ${count === 1 ? one : more}`;

function amount(number) {
  if (number == null) return NONE;
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)}M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)}k`;
  if (number >= 100 || Number.isInteger(number)) return String(Math.round(number));
  return number.toFixed(1);
}

function bytes(number) {
  if (number == null) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; number >= 1000 && unit < units.length - 1; unit++) number /= 1024;
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

function time(seconds) {
  if (seconds == null) return NONE;
  if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

const share = (part) => (part == null ? NONE : `${(part * 100).toFixed(part >= 0.9995 || part === 0 ? 0 : 1)} %`);

// ---- Sparklines

const series = new Map(); // of each row: [time, figure], the oldest first

function keep(key, when, figure) {
  if (figure == null) return;
  const points = series.get(key) ?? [];
  if (points.length === 0) series.set(key, points);
  points.push([when, figure]);
  while (points[0][0] < when - WINDOW) points.shift();
}

function forget(when) {
  for (const [key, points] of series) {
    if (points.at(-1)[0] < when - WINDOW) series.delete(key);
  }
}

function sparkline() {
  const make = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const svg = make("svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const name of ["area", "line"]) svg.appendChild(make("path")).setAttribute("class", name);
  return svg;
}

function draw(svg, key, now) {
  const points = series.get(key) ?? [];
  const most = Math.max(...points.map(([, figure]) => figure), 1e-9);
  const x = (when) => (WIDTH * (1 - (now - when) / WINDOW)).toFixed(1);
  const path = points.map(([when, figure]) => `${x(when)} ${(HEIGHT - 1 - (figure / most) * (HEIGHT - 3)).toFixed(1)}`);
  const [area, line] = svg.children;
  line.setAttribute("d", path.length > 1 ? `M${path.join("L")}` : "");
  area.setAttribute("d", path.length > 1 ? `M${x(points[0][0])} ${HEIGHT}L${path.join("L")}L${x(now)} ${HEIGHT}Z` : "");
}

// ---- Tables: of each its columns, as [text, class] of a row; the first is the row's head

const plain = (text, kind = "") => [text, kind];
const failures = (rate) => plain(amount(rate), rate > 0 ? "bad" : "quiet");
const name = (text) => plain(text ?? NONE, text == null ? "left quiet" : "left");

function health(row) {
  if (row.health === "down") return plain("down", "bad");
  if (row.health === "ejected") return plain(`out for ${time(row.ejected)}`, "bad");
  return row.health === "up" ? plain("up", "good") : plain("not checked", "quiet");
}

const request = (row) => plain(`${row.method} ${row.path}`);
const waits = (row) => plain(row.awaits, row.awaits === "client" ? "left warn" : "left");
const route = (row) => name(row.route ?? (row.lane === "app" ? "application" : null));
const tables = {
  routes: [
    (row) => plain(row.name), sparkline, (row) => plain(amount(row.requests)), (row) => plain(amount(row.active)),
    (row) => failures(row.failures), (row) => plain(bytes(row.sent)), (row) => plain(time(row.p50)),
    (row) => plain(time(row.p95)), (row) => plain(share(row.hits), row.hits == null ? "quiet" : ""),
  ],
  origins: [
    (row) => plain(row.name), sparkline, (row) => plain(amount(row.attempts)), health, (row) => failures(row.failures),
    (row) => plain(`${amount(row.active)} / ${amount(row.active + row.idle)}`),
    (row) => plain(amount(row.waiting), row.waiting > 0 ? "warn" : "quiet"), (row) => plain(time(row.p50)),
    (row) => plain(time(row.p95)),
  ],
  topics: [
    (row) => plain(row.finished ? `${row.name} (finished)` : row.name), sparkline, (row) => plain(amount(row.published)),
    (row) => plain(amount(row.subscribers)), (row) => plain(amount(row.delivered)), (row) => failures(row.lost),
    (row) => plain(amount(row.events)), (row) => plain(bytes(row.bytes)),
  ],
  slowest: [
    request, (row) => plain(time(row.age)), waits, route, (row) => name(row.client), (row) => name(row.tenant),
  ],
  longest: [
    request, (row) => plain(time(row.age)), waits, (row) => plain(String(row.status), row.status >= 500 ? "bad" : ""),
    (row) => plain(bytes(row.sent)), route, (row) => name(row.client), (row) => name(row.tenant),
  ],
};
const shown = Object.fromEntries(Object.keys(tables).map((table) => [table, new Map()])); // rows, by key

function makeRow(columns) {
  const row = document.createElement("tr");
  columns.forEach((column, number) => {
    const cell = row.appendChild(document.createElement(number === 0 ? "th" : "td"));
    if (number === 0) cell.scope = "row";
    if (column === sparkline) cell.className = "spark", cell.appendChild(sparkline());
  });
  return row;
}

function fill(table, rows, now) {
  const body = at(table).tBodies[0], known = shown[table], columns = tables[table];
  const keys = rows.map((row, number) => row.key ?? number);
  for (const [key, row] of known) {
    if (!keys.includes(key)) row.remove(), known.delete(key);
  }
  rows.forEach((row, number) => {
    const key = keys[number];
    if (!known.has(key)) known.set(key, makeRow(columns));
    const line = known.get(key);
    if (body.rows[number] !== line) body.insertBefore(line, body.rows[number] ?? null);
    columns.forEach((column, place) => {
      const cell = line.cells[place];
      if (column === sparkline) return draw(cell.firstChild, key, now);
      const [text, kind] = column(row);
      if (cell.textContent !== text) cell.textContent = text, cell.title = place === 0 ? text : "";
      if (cell.className !== kind) cell.className = kind;
    });
  });
}

// ---- Totals

function total(id, figure, unit, key = id) {
  const cell = at(id);
  if (!cell.firstChild) {
    cell.append(document.createTextNode(""), document.createElement("span"));
    cell.lastChild.className = "unit";
    if (key) cell.parentNode.appendChild(sparkline());
  }
  cell.firstChild.data = figure;
  cell.lastChild.textContent = unit && ` ${unit}`;
}

function note(id, text, kind = "") {
  at(id).textContent = text;
  at(id).className = `note ${kind}`;
}

function showTotals(totals, now) {
  const perSecond = (figure) => (figure == null ? [NONE, ""] : [bytes(figure).split(" ")[0], `${bytes(figure).split(" ")[1]}/s`]);
  total("requests", amount(totals.requests), "/s");
  note("requests-note", totals.failures > 0 ? `${amount(totals.failures)}/s failed` : "none failed", totals.failures > 0 ? "bad" : "");
  total("active", amount(totals.active), "");
  const waiting = totals.waiting > 0 ? `, ${amount(totals.waiting)} wait for the application` : "";
  note("active-note", `on ${plural(totals.connections, "connection", "connections")}${waiting}`);
  total("sent", ...perSecond(totals.sent));
  note("sent-note", "heads and framing included");
  total("read", ...perSecond(totals.read));
  total("hits", ...share(totals.hits).split(" "));
  total("delivered", amount(totals.delivered), "/s");
  const log = totals.log_ready === false ? ", log away" : totals.log_behind > 0 ? `, ${totals.log_behind} behind` : "";
  note("delivered-note", `${plural(totals.subscribers, "subscriber", "subscribers")} of ${plural(totals.topics, "topic", "topics")}${log}`,
    log && "warn");
  total("pool", ...bytes(totals.pool).split(" "));
  note("pool-note", `of ${bytes(totals.budget)}; ${bytes(totals.resident)} resident`, totals.pool_state === "open" ? "" : "warn");
  total("busy", ...share(totals.busy).split(" "));
  const workers = totals.workers == null ? "" : `, ${plural(totals.workers, "worker", "workers")}`;
  note("busy-note", `of ${plural(totals.threads, "engine thread", "engine threads")}${workers}`);
  for (const svg of at("totals").querySelectorAll("svg")) draw(svg, svg.parentNode.querySelector("dd").id, now);
}

// ---- Events

let paused = false, last = 0, lasting = null;

function say(text, kind) {
  if (at("state").textContent !== text) at("state").textContent = text;
  at("state").className = kind;
  document.body.classList.toggle("stale", kind === "bad" && Date.now() - last > 3000);
}

function show(event) {
  at("live").hidden = at("pause").hidden = false;
  at("version").textContent = event.version;
  const failed = event.checks.filter((check) => !check.ok);
  if (event.draining) say("Draining: no new work is taken", "warn");
  else if (failed.length > 0) say(`Not ready: ${failed.map((check) => check.seen).join("; ")}`, "bad");
  else say("Ready", "good");
  showTotals(event.totals, event.at);
  const unshown = (count) => (count > 0 ? `${amount(count)} more` : "");
  for (const table of ["routes", "origins", "topics"]) {
    fill(table, event[table].rows, event.at);
    at(`${table}-more`).textContent = event[table].rows.length === 0 ? "None so far." : unshown(event[table].more);
  }
  at("topics-section").hidden = event.topics.rows.length === 0;
  for (const table of ["slowest", "longest"]) {
    fill(table, event[table], event.at);
    at(`${table}-more`).textContent = event[table].length === 0 ? "None." : "";
  }
  if (event.silent > 0) {
    at("slowest-more").textContent = `${plural(event.silent, "request does", "requests do")} not say what it waits for: its engine thread is busy or hangs.`;
  }
}

function take(event) {
  last = Date.now();
  for (const [key, figure] of Object.entries(event.totals)) {
    if (typeof figure === "number") keep(key, event.at, figure);
  }
  for (const row of event.routes.rows) keep(row.key, event.at, row.requests);
  for (const row of event.origins.rows) keep(row.key, event.at, row.attempts);
  for (const row of event.topics.rows) keep(row.key, event.at, row.published);
  forget(event.at);
  lasting = event;
  if (!paused) show(event);
}

function follow() {
  const source = new EventSource("events");
  source.addEventListener("history", ({ data }) => {
    const history = JSON.parse(data);
    series.clear();
    for (const [key, figures] of Object.entries(history.figures)) {
      figures.forEach((figure, number) => keep(key, history.at[number], figure));
    }
  });
  source.addEventListener("message", ({ data }) => take(JSON.parse(data)));
  source.addEventListener("error", () => {
    if (source.readyState !== EventSource.CLOSED) return say("Disconnected: trying again", "bad");
    say("No events: the page may have as many viewers as it may. Trying again in 5 s", "bad");
    setTimeout(follow, 5000);
  });
}

at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused && lasting) show(lasting);
});
setInterval(() => {
  const silence = Date.now() - last;
  if (last > 0 && silence > 5000) say(`No news for ${time(Math.floor(silence / 1000))}`, "bad");
}, 1000);
follow();
