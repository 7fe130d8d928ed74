// Draws one page: PAGE has a title and rows of panels, each with the series that Prometheus answered with.

const PALETTE = ["#3274d9", "#e0752d", "#299c46", "#a352cc", "#d1a70b", "#0a8f9c", "#c4162a", "#6b7f99", "#b877d9", "#7a9c29"];
const NAMED = { green: "#37872d", "super-light-green": "#96d98d", blue: "#3274d9", yellow: "#d1a70b", orange: "#e0752d",
  red: "#c4162a", purple: "#a352cc" };

const element = (name, parent, text = "", attributes = {}) => {
  const svg = ["svg", "g", "line", "path", "text"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
};

const rounded = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)).replace(/\.?0+$/, (end) =>
  end.startsWith(".") ? "" : end);

const scaled = (value, base, names) => {
  let at = 0;
  while (value >= base && at < names.length - 1) [value, at] = [value / base, at + 1];
  return `${rounded(value)}${names[at]}`;
};

const FORMATS = {
  s: (value) => (value === 0 ? "0 s" : value < 1e-3 ? `${rounded(value * 1e6)} µs` : value < 1 ? `${rounded(value * 1e3)} ms`
    : value < 120 ? `${rounded(value)} s` : `${rounded(value / 60)} min`),
  bytes: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB"]),
  Bps: (value) => scaled(value, 1000, [" B/s", " kB/s", " MB/s", " GB/s"]),
  percentunit: (value) => `${rounded(value * 100)} %`,
  reqps: (value) => scaled(value, 1000, [" req/s", "k req/s"]),
  cps: (value) => scaled(value, 1000, [" /s", "k /s"]),
  ops: (value) => scaled(value, 1000, [" /s", "k /s"]),
  d: (value) => `${rounded(value)} days`,
  short: (value) => scaled(value, 1000, ["", " k", " M"]),
};

// The smallest step of 1, 2 or 5 (or of a power of two, for bytes) that has at most five ticks.
const ticks = (low, high, unit) => {
  const range = high - low || 1;
  let step;
  if (unit === "bytes") {
    step = 2 ** Math.ceil(Math.log2(range / 5));
  } else {
    const power = 10 ** Math.floor(Math.log10(range / 4));
    step = [1, 2, 5, 10].map((each) => each * power).find((each) => range / each <= 5);
  }
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(value);
  return found;
};

const colourOf = (panel, name, at) => {
  const own = Object.entries(panel.colours).find(([pattern]) => new RegExp(`^(?:${pattern})$`).test(name));
  return own ? NAMED[own[1]] : PALETTE[at % PALETTE.length];
};

const ofSteps = (panel, value) => NAMED[panel.steps.filter(([from]) => from === null || value >= from).at(-1)[1]];

const last = (series) => series.points.at(-1)?.[1] ?? 0;

function stat(panel, into) {
  const value = last(panel.series[0]);
  const number = element("div", into, FORMATS[panel.unit](value), { class: "number" });
  number.style.color = ofSteps(panel, value);
}

function bars(panel, into) {
  const all = element("div", into, "", { class: "bars" });
  for (const series of panel.series) {
    const value = last(series);
    element("p", all, series.name);
    const bar = element("div", all);
    const filled = element("i", bar);
    filled.style.width = `${Math.max(2, Math.min(100, (value / panel.most) * 100))}%`;
    filled.style.background = ofSteps(panel, value);
    element("b", bar, FORMATS[panel.unit](value));
  }
}

function legend(panel, series, into) {
  const list = element("div", into, "", { class: "legend" });
  for (const each of series) {
    const item = element("span", list);
    element("i", item).style.background = each.colour;
    item.append(each.name);
    element("b", item, FORMATS[panel.unit](last(each)));
  }
  // What has no room is counted.
  const hidden = [...list.children].filter((item) => item.offsetTop + item.offsetHeight > list.offsetTop + list.clientHeight + 1);
  if (hidden.length) {
    const shown = list.children.length - hidden.length - 1;
    while (list.children.length > shown) list.lastChild.remove();
    element("span", list, `and ${series.length - shown} more`, { class: "more" });
  }
}

// A line without its gaps; of a stack, also without the parts that have no thickness.
function parts(line, stacked) {
  const found = [];
  let before = -Infinity;
  const isThick = (point) => point !== undefined && point.value > point.below;
  for (const [at, point] of line.entries()) {
    if (stacked && ![line[at - 1], point, line[at + 1]].some(isThick)) continue;
    if (point.time - before > PAGE.step * 1.5) found.push([]);
    found.at(-1).push(point);
    before = point.time;
  }
  return found;
}

function graph(panel, into) {
  const series = panel.series.filter((each) => each.points.length)
    .map((each, at) => ({ ...each, colour: colourOf(panel, each.name, at) }));
  const svg = element("svg", into);
  legend(panel, series, into);
  const { width, height } = svg.getBoundingClientRect();
  const times = [...new Set(series.flatMap((each) => each.points.map(([time]) => time)))].sort((a, b) => a - b);
  const sums = new Map(times.map((time) => [time, 0]));
  for (const each of series) {
    each.line = each.points.map(([time, value]) => {
      const below = panel.stacked ? sums.get(time) : 0;
      sums.set(time, below + value);
      return { time, below, value: below + value };
    });
  }
  const values = series.flatMap((each) => each.line.map(({ value }) => value));
  const low = panel.least ?? Math.min(...values);
  const high = panel.most ?? (Math.max(low + 1e-9, ...values) * 1.05 || 1);
  const top = high - low < 1e-8 ? low + 1 : high;
  const edge = { left: 62, right: 8, top: 6, bottom: 16 };
  const across = (time) => edge.left + ((time - PAGE.start) / (PAGE.end - PAGE.start)) * (width - edge.left - edge.right);
  const up = (value) => height - edge.bottom - ((value - low) / (top - low)) * (height - edge.top - edge.bottom);
  for (const tick of ticks(low, top, panel.unit)) {
    element("line", svg, "", { x1: edge.left, x2: width - edge.right, y1: up(tick), y2: up(tick), stroke: "#eceef0" });
    element("text", svg, FORMATS[panel.unit](tick), { x: edge.left - 6, y: up(tick) + 3, "text-anchor": "end" });
  }
  const span = PAGE.end - PAGE.start;
  const each = [5, 10, 15, 30, 60, 120].find((seconds) => span / seconds <= Math.max(3, width / 90)) ?? 300;
  for (let time = 0; time <= span; time += each) {
    const anchor = time === 0 ? "start" : time + each > span ? "end" : "middle";
    element("text", svg, `${time} s`, { x: across(PAGE.start + time), y: height - 3, "text-anchor": anchor });
  }
  const at = (time, value) => `${across(time).toFixed(1)} ${up(value).toFixed(1)}`;
  for (const { line, colour } of series) {
    for (const part of parts(line, panel.stacked)) {
      const path = `M${part.map(({ time, value }) => at(time, value)).join("L")}`;
      const back = [...part].reverse().map(({ time, below }) => `L${at(time, below)}`).join("");
      element("path", svg, "", { d: `${path}${back}Z`, fill: colour, "fill-opacity": panel.stacked ? 0.3 : 0.07 });
      element("path", svg, "", { d: path, fill: "none", stroke: colour, "stroke-width": 1.4, "stroke-linejoin": "round" });
    }
  }
}

document.querySelector("h1").textContent = PAGE.title;
document.querySelector("header p").textContent = PAGE.about;
const main = document.querySelector("main");
for (const row of PAGE.rows) {
  element("h2", main, row.title);
  for (const panel of row.panels) {
    const section = element("section", main);
    section.style.gridColumn = `span ${panel.width}`;
    section.style.height = `${panel.height * 26}px`;
    element("h3", section, panel.title);
    ({ stat, bargauge: bars, timeseries: graph })[panel.kind](panel, section);
  }
}
document.body.dataset.drawn = document.querySelectorAll("section").length;
