// Data, numbers for people, elements, colours, and what every part listens to.

// Marks that turn the direction of text could make one name look like another.
const turningMarks = /[\u202a-\u202e\u2066-\u2069]/g;
const data = JSON.parse(document.getElementById("data").textContent.replace(turningMarks, "\ufffd"));
const isPeriod = data.objective.period;
/** What the value is called. */
const valueName = isPeriod ? "period" : "finish";

// ---- Numbers for people: four digits and a unit, as the command line writes them.

function digits(value, count) {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  let text = value.toFixed(Math.max(0, count - 1 - exponent));
  if (Math.abs(Number(text)) >= 10 ** (exponent + 1)) text = value.toFixed(Math.max(0, count - 2 - exponent));
  const [whole, rest] = text.split(".");
  const grouped = whole.replace("-", "").length < 5 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? grouped : `${grouped}.${rest}`;
}

function withUnit(value, units) {
  if (Math.abs(value) < 1000) return `${Number.isInteger(value) ? value : digits(value, 4)}\u00a0${units[0]}`;
  let unit = 0;
  while (Math.abs(value) >= 999.95 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${digits(value, 4)}\u00a0${units[unit]}`;
}

const showTime = (ps) => (ps === 0 ? "0" : withUnit(ps, ["ps", "ns", "µs", "ms", "s"]));
const showBytes = (bytes) => withUnit(bytes, ["B", "kB", "MB", "GB", "TB", "PB"]);
/** Bytes that go somewhere; none are nothing. */
const showSent = (bytes) => (bytes === 0 ? "nothing" : showBytes(bytes));
const showCount = (count) => (count < 10000 ? String(count) : digits(count, 12));
const showTimes = (factor) => `${digits(factor, 3)}×`;
const plural = (count, one, many = `${one}s`) => `${showCount(count)} ${count === 1 ? one : many}`;

/** A share; what is not exactly nothing or all never looks like it. */
function showShare(share) {
  const percent = share * 100;
  if (share === 0) return "0\u00a0%";
  if (percent < 0.05) return "<0.1\u00a0%";
  if (percent < 100 && percent >= 99.95) return "99.9\u00a0%";
  return `${percent >= 10 ? digits(percent, 3) : percent.toFixed(1)}\u00a0%`;
}

// ---- Axes: marks on round numbers, one unit for the whole of an axis.

const TIME_UNITS = [["s", 1e12], ["ms", 1e9], ["µs", 1e6], ["ns", 1e3], ["ps", 1]];

/** The least of 1, 2 and 5 times a power of ten that is not below a number. */
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= number * (1 - 1e-9));
}

/** The most of 1, 2 and 5 times a power of ten that is not above a number. */
function roundDown(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [5, 2, 1].map((factor) => factor * power).find((one) => one <= number * (1 + 1e-9)) ?? power;
}

/** Round numbers from one to another, in at most so many steps, and their distance. */
function roundMarks(from, to, most) {
  const step = roundUp(Math.max(to - from, 1e-12) / most);
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.floor(to / step + 1e-9) - first + 1;
  return { step, marks: Array.from({ length: Math.max(count, 0) }, (_, i) => (first + i) * step) };
}

/** Marks of an axis of times in picoseconds, each with its text. */
function timeMarks(from, to, most) {
  const [unit, size] = TIME_UNITS.find(([, one]) => Math.max(Math.abs(from), Math.abs(to)) >= one) ?? TIME_UNITS[4];
  const { step, marks } = roundMarks(from / size, to / size, most);
  const decimals = clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 9);
  const text = (mark) => (Math.abs(mark) < step / 2 ? "0" : `${mark.toFixed(decimals).replace(/\B(?=(\d{3})+(?!\d)(?=\.|$))/g, mark >= 10000 ? "," : "")}\u00a0${unit}`);
  return marks.map((mark) => ({ at: mark * size, text: text(mark) }));
}

/** Marks of a logarithmic axis of seconds: 1, 2 and 5 times powers of ten, or the powers alone where they are many. */
function secondMarks(from, to, most) {
  const [unit, size] = to >= 1 ? ["s", 1] : ["ms", 1e-3];
  const exponents = [];
  for (let e = Math.floor(Math.log10(from / size)); e <= Math.log10(to / size); e += 1) exponents.push(e);
  const inside = (factors) => exponents.flatMap((e) => factors.map((factor) => Number(`${factor}e${e}`))).filter((one) => one * size >= from * (1 - 1e-9) && one * size <= to * (1 + 1e-9));
  const all = [[1, 2, 5], [1, 5], [1]].map(inside);
  const marks = all.find((list) => list.length <= most) ?? all[2].filter((_, i) => i % Math.ceil(all[2].length / most) === 0);
  return marks.map((mark) => ({ at: mark * size, text: `${mark}\u00a0${unit}` }));
}

/** The largest of what a list gives; spreading a long list into arguments would overflow. */
const largest = (list, key, least = 0) => list.reduce((most, one) => Math.max(most, key(one)), least);
const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

// ---- Elements. Text is only ever put in as text.

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "own") element.style.setProperty("--own", value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const make = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** What the colours and strokes of a chart mean. */
const swatch = (style, text, more) => make("span", { class: "key" }, make("span", { class: `swatch ${style}`, style: more }), text);
const legend = (...entries) => make("div", { class: "legend" }, entries.flat().filter(Boolean));

/** The scale under bars: from nothing to `most`, its marks on round numbers. */
function barScale(most, steps = 5) {
  const marks = timeMarks(0, most, narrow() ? 3 : steps);
  const scale = make("div", { class: "scale", "aria-hidden": "true" }, marks.map(({ at, text }) => {
    const share = (at / most) * 100;
    return make("span", { class: share > 90 ? "last" : share < 1 ? "first" : "", style: share > 90 ? { right: `${100 - share}%` } : { left: `${share}%` } }, text);
  }));
  new ResizeObserver(() => thinOut(scale)).observe(scale);
  return [
    make("span", { class: "name", "aria-hidden": "true" }),
    scale,
    make("span", { class: "figure", "aria-hidden": "true" }),
  ];
}

/** Where bars are short, marks that would lie on the one before are left out. */
function thinOut(scale) {
  let until = -Infinity;
  for (const mark of scale.children) {
    const box = mark.getBoundingClientRect();
    const fits = box.left >= until + 4;
    mark.style.visibility = fits ? "" : "hidden";
    if (fits) until = box.right;
  }
}

const narrow = () => innerWidth < 704;

/** What the navigation calls the parts whose headings are long. */
const SHORT_TITLES = { timeline: isPeriod ? "One request" : undefined, weights: "Weights", quality: "How good", graph: "Network", loads: "Loads", search: "Search", about: "About" };

/** A part of the report with a heading, in the navigation too. */
function card(id, title, tools, ...children) {
  const head = make("div", { class: "head" }, make("h2", {}, title), tools && make("div", { class: "tools" }, tools));
  return make("section", { class: "card", id, "data-title": title, "data-short": SHORT_TITLES[id] }, head, ...children);
}

// ---- Devices and their colours, by their place in the hardware, so that a device keeps its own from plan to plan.

const deviceCount = data.devices.length;
// A device without ops may still be busy, with copies of what passes it.
const used = data.devices.flatMap((device, i) => (device.ops > 0 || device.busy > 0 ? [i] : []));
const DEVICE_COLOURS = 8;
// Of more devices than colours, those in use come first.
const colourOf = new Map(used.map((device, i) => [device, `d${(deviceCount <= DEVICE_COLOURS ? device : i) % DEVICE_COLOURS}`]));
const deviceName = (device) => data.devices[device].name;
const deviceColour = (device) => `var(--${colourOf.get(device) ?? "idle"})`;
const deviceChip = (device) => make("span", { class: "chip", own: deviceColour(device) }, deviceName(device));

/** The colours of the present scheme, for the canvas. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

// ---- Ops.

const opCount = data.ops.name.length;
const opName = (op) => data.ops.name[op];
const opKind = (op) => data.ops.kinds[data.ops.kind[op]];
const opDevice = (op) => data.ops.device[op];
const order = data.ops.order ?? Array.from({ length: opCount }, (_, i) => i);
const timeOn = (op, device) => data.ops.time[data.devices[device].class_id][op];
const inputsOf = Array.from({ length: opCount }, () => []);
const outputsOf = Array.from({ length: opCount }, () => []);
data.tensors.consumers.forEach((consumers, tensor) => {
  const producer = data.tensors.producer[tensor];
  if (producer !== null) outputsOf[producer].push(tensor);
  for (const op of consumers) inputsOf[op].push(tensor);
});

/** Where an op runs, with how many inputs: a batch may be divided. */
const sharesOf = new Map();
for (const [op, device, size] of data.ops.shares ?? []) {
  if (!sharesOf.has(op)) sharesOf.set(op, []);
  sharesOf.get(op).push([device, size]);
}

// ---- The timeline: lanes are devices, then links.

function readSpans(numbers) {
  const spans = [];
  for (let at = 0; at < numbers.length; at += 6) {
    const [lane, kind, id, start, length, more] = numbers.slice(at, at + 6);
    spans.push(lane === null ? null : { lane, kind, id, start, end: start + length, length, more, critical: false });
  }
  return spans;
}

const spans = readSpans(data.spans);
const measured = data.measured && readSpans(data.measured);
/** The critical path, one span for each step. */
const path = data.path.map((positions) => spans[positions[0]]);
for (const position of data.path.flat()) if (spans[position]) spans[position].critical = true;
const isCritical = new Uint8Array(opCount);
for (const span of path) if (span.kind === 0) isCritical[span.id] = 1;
/** The busy time of each op as planned, and its first span. */
const spanOf = new Map();
const plannedTime = new Float64Array(opCount);
for (const span of spans) {
  if (span && span.kind === 0 && span.lane < deviceCount) {
    plannedTime[span.id] += span.length;
    if (!spanOf.has(span.id) || span.start < spanOf.get(span.id).start) spanOf.set(span.id, span);
  }
}
/** What an op took when it was measured. */
const measuredTime = new Map();
for (const span of measured ?? []) {
  if (span && span.kind === 0) measuredTime.set(span.id, (measuredTime.get(span.id) ?? 0) + span.length);
}
const laneName = (lane) => (lane < deviceCount ? deviceName(lane) : data.links[lane - deviceCount].name);

/** Whether weights are on their way: loaded, or read in place over a bus. */
const isLoad = (span) => span.kind === 2 || (span.kind === 0 && span.lane >= deviceCount);
/** What each link carries: the part of its time that goes to weights. */
const loadShare = data.links.map((_, i) => {
  const own = spans.filter((span) => span && span.lane === deviceCount + i);
  const sum = (list) => list.reduce((time, span) => time + span.length, 0);
  return sum(own.filter(isLoad)) / Math.max(sum(own), 1);
});
const someLoads = spans.some((span) => span && isLoad(span));
/** Whether pieces cost anything besides their ops. */
const someCalls = data.devices.some((device) => device.calls > 0);
const someTransfers = spans.some((span) => span && span.kind === 1);

function spanTitle(span) {
  if (span.kind === 0) return opName(span.id);
  if (span.kind === 3) return `piece ${span.id + 1} begins`;
  if (span.kind === 2) return `weights ${data.params.name[span.id]}`;
  const producer = data.tensors.producer[span.id];
  return producer === null ? "an input of the network" : `output of ${opName(producer)}`;
}

// ---- What is chosen and filtered, and who wants to know.

const listeners = { select: [], filter: [], theme: [] };
const state = { op: null, matches: null };
const on = (event, action) => listeners[event].push(action);
const tell = (event) => listeners[event].forEach((action) => action());

function select(op) {
  state.op = op;
  tell("select");
}

/** Only these ops matter now; null: all do. */
function filter(matches) {
  state.matches = matches;
  tell("filter");
}

const opButton = (op) => make("button", { type: "button", class: "link-button", onclick: () => select(op) }, opName(op));

// ---- The tip that follows the pointer.

const tip = document.getElementById("tip");

function showTip(x, y, title, rows) {
  tip.replaceChildren(
    make("b", {}, title),
    ...rows.map(([name, value]) => make("div", { class: "row" }, make("span", {}, name), make("span", {}, value))),
  );
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
  const top = y + 16 + box.height > innerHeight ? y - 12 - box.height : y + 16;
  tip.style.left = `${clamp(left, 6, Math.max(6, innerWidth - box.width - 6))}px`;
  tip.style.top = `${Math.max(6, top)}px`;
}

const hideTip = () => {
  tip.hidden = true;
};
