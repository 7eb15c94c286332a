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

/** A part of the report with a heading, in the navigation too. */
function card(id, title, tools, ...children) {
  const head = make("div", { class: "head" }, make("h2", {}, title), tools && make("div", { class: "tools" }, tools));
  return make("section", { class: "card", id, "data-title": title }, head, ...children);
}

// ---- Devices and their colours: those in use in their own, in the order of the hardware.

const deviceCount = data.devices.length;
// A device without ops may still be busy, with copies of what passes it.
const used = data.devices.flatMap((device, i) => (device.ops > 0 || device.busy > 0 ? [i] : []));
const colourOf = new Map(used.map((device, i) => [device, `d${i % 8}`]));
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

function spanTitle(span) {
  if (span.kind === 0) return opName(span.id);
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
