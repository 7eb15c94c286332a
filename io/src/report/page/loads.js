// Loads and memory, stages and runs, the search over time, and where everything comes from.

const partBar = (start, length, most, style, device, title) =>
  make("span", { class: style, title, style: { left: `${(start / most) * 100}%`, width: `${(length / most) * 100}%`, ...(device === null ? {} : { backgroundColor: deviceColour(device) }) } });

/** Rows of bars, the first of many; `scale` is what the full width stands for, where it is a time, in so many steps. */
function showAll(rows, most, build, scale, steps) {
  const holder = make("div", { class: "bars" }, rows.slice(0, most).flatMap(build), scale ? barScale(scale, steps) : []);
  if (rows.length > most) {
    const more = make("button", { type: "button", class: "wide", onclick: () => {
      more.remove();
      holder.append(...rows.slice(most).flatMap(build).filter(Boolean), ...(scale ? barScale(scale, steps) : []));
    } }, `Show all ${showCount(rows.length)}`);
    holder.append(more);
  }
  return holder;
}

function loadsCard() {
  const most = Math.max(data.value, ...used.map((device) => data.devices[device].busy), ...data.links.map((link) => link.busy), 1);
  const mark = () => make("span", { class: "mark", title: `the ${valueName}`, style: { left: `calc(${(data.value / most) * 100}% - 2px)` } });
  const device = (i) => {
    const { busy, calls, pieces } = data.devices[i];
    return [
      make("span", { class: "name" }, deviceChip(i)),
      make("div", { class: "track" }, partBar(0, busy - calls, most, "", i), partBar(busy - calls, calls, most, "call-bar", null, `${plural(pieces, "piece")}: ${showTime(calls)}`), mark()),
      make("span", { class: "figure" }, `${showTime(busy)} · ${showShare(data.value ? busy / data.value : 0)}`),
    ];
  };
  const link = (one) => [
    make("span", { class: "name" }, one.name),
    make("div", { class: "track" },
      make("span", { class: "load-bar", style: { width: `${((one.busy * one.loads) / most) * 100}%` } }),
      make("span", { class: "transfer-bar", style: { left: `${((one.busy * one.loads) / most) * 100}%`, width: `${((one.busy * (1 - one.loads)) / most) * 100}%` } }), mark()),
    make("span", { class: "figure", title: `${showBytes(one.bandwidth)}/s` }, `${showTime(one.busy)} · ${showShare(data.value ? one.busy / data.value : 0)}`),
  ];
  const memory = (i) => {
    const { memory: bytes, memory_limit: limit } = data.devices[i];
    const whole = limit ?? Math.max(...used.map((j) => data.devices[j].memory), 1);
    return [
      make("span", { class: "name" }, deviceChip(i)),
      make("div", { class: "track" }, partBar(0, Math.min(bytes, whole), Math.max(whole, 1), "", i)),
      make("span", { class: "figure" }, limit === null ? `${showBytes(bytes)}, no limit` : `${showBytes(bytes)} of ${showBytes(limit)}`),
    ];
  };
  const links = data.links.map((one, i) => ({ ...one, loads: loadShare[i] })).sort((a, b) => b.busy - a.busy);
  const idle = deviceCount - used.length;
  const what = isPeriod ? "The line is the period: whatever reaches it is the bottleneck." : "The line is the finish; a device is idle for the rest of its bar.";
  return card(
    "loads",
    "Load and memory",
    null,
    make("p", { class: "note" }, what),
    make("div", { class: "two", style: { marginTop: "0.8rem" } },
      make("div", {}, make("h3", {}, "Devices, busy"), showAll(used, 24, device, most, 2), idle > 0 && make("p", { class: "note" }, `${plural(idle, "device")} idle`)),
      make("div", {}, make("h3", {}, "Devices, memory"), showAll(used, 24, memory)),
    ),
    links.length
      ? make("div", { style: { marginTop: "1rem" } }, make("h3", {}, data.objective.name === "cold-start" ? "Links and buses from host memory, busy" : "Links, busy"), showAll(links, 12, link, most))
      : make("p", { class: "note", style: { marginTop: "0.8rem" } }, "No link carries anything."),
    legend(
      used.slice(0, 16).map(deviceChip),
      links.some((one) => one.loads < 1) && swatch("transfer-bar", "tensors"),
      links.some((one) => one.loads > 0) && swatch("load-bar", "weights"),
      swatch("mark-bar", `the ${valueName}: ${showTime(data.value)}`),
    ),
  );
}

/** How the weights of a cold start reach their readers: over which bus, when, forwarded or read in place. */
function routesCard() {
  const routes = data.routes.map(([param, target, bus, start, end, forwarded, own]) =>
    param === null
      ? { op: target, device: opDevice(target), bus, start, end, bytes: data.ops.weights[target] }
      : { param, device: target, bus, start, end, forwarded, own, bytes: data.params.bytes[param] });
  if (routes.length === 0) return null;
  const most = Math.max(data.value, 1);
  const byLength = [...routes].sort((a, b) => b.end - b.start - (a.end - a.start) || a.start - b.start);
  const sum = (list) => list.reduce((bytes, route) => bytes + route.bytes, 0);
  const buses = data.links.map((link, i) => ({ link, routes: routes.filter((route) => route.bus === i) })).filter((bus) => bus.routes.length);
  const bus = ({ link, routes: own }) => {
    const read = own.filter((route) => route.op !== undefined);
    const parts = [["for the GPU it leads to", sum(own.filter((route) => route.op === undefined && !isForwardedWay(route)))], ["forwarded to a peer", sum(own.filter(isForwardedWay))]];
    const text = parts.filter(([, bytes]) => bytes > 0).map(([name, bytes]) => `${showBytes(bytes)} ${name}`);
    if (read.length) text.push(`${plural(read.length, "op")} reading in place`);
    return [
      make("span", { class: "name" }, link.name),
      make("div", { class: "track" }, own.map((route) => wayBar(route, most))),
      make("span", { class: "figure" }, `${showTime(link.busy)} · ${showShare(link.busy / most)}`),
      make("span", { class: "argument" }, text.join(" · ")),
    ];
  };
  const row = (route) => [
    make("span", { class: "name" }, route.op === undefined ? data.params.name[route.param] : opButton(route.op)),
    make("div", { class: "track" }, wayBar(route, most)),
    make("span", { class: "figure" }, `${showTime(route.start)} to ${showTime(route.end)}`),
    make("span", { class: "argument" }, `${showBytes(route.bytes)} · ${wayOf(route)}`),
  ];
  return card(
    "weights",
    "Ways of the weights",
    null,
    make("p", { class: "note" }, "Weights begin in host memory. Each bus carries one thing at a time, in this order; the stripe of a bar is the GPU that it goes to."),
    make("div", { style: { marginTop: "0.8rem" } }, make("h3", {}, "Buses"), showAll(buses, 16, bus, most)),
    legend(used.slice(0, 16).map(deviceChip), swatch("load-bar", "loaded"), swatch("load-bar part-in", "loaded, then forwarded to a peer"), swatch("load-bar part-over", "read in place")),
    make("div", { style: { marginTop: "1rem" } }, make("h3", {}, "Weight by weight, the longest first"), showAll(byLength, 12, row, most)),
  );
}

const isForwardedWay = (route) => route.op === undefined && route.forwarded.length > 0;

/** One weight on its way. */
const wayBar = (route, most) =>
  make("span", { class: `load-bar ${route.op !== undefined ? "part-over" : isForwardedWay(route) ? "part-in" : ""}`, title: wayOf(route), style: {
    left: `${(route.start / most) * 100}%`, width: `max(${((route.end - route.start) / most) * 100}%, 1px)`, borderTop: `5px solid ${deviceColour(route.device)}` } });

/** The way of one weight in words. */
function wayOf(route) {
  const over = route.bus === null ? "" : `over ${data.links[route.bus].name} `;
  if (route.op !== undefined) return `${over}read in place on ${deviceName(route.device)}`;
  const forwarded = route.forwarded.map(deviceName).join(", ");
  return `${over}to ${deviceName(route.device)}${forwarded ? `, forwarded to ${forwarded}${route.own ? " and read there too" : ""}` : ""}`;
}

/** The name of the first op and of the last. */
const ends = (ops) => (ops.length === 1 ? [opButton(ops[0])] : [opButton(ops[0]), " … ", opButton(ops[ops.length - 1])]);

/** Bytes that go from one part of the plan to another; a tensor goes once to each. */
function exchanged(partOf, parts) {
  const sent = Array.from({ length: parts }, () => ({ in: 0, out: 0 }));
  data.tensors.consumers.forEach((consumers, tensor) => {
    const producer = data.tensors.producer[tensor];
    if (producer === null) return;
    const targets = new Set(consumers.map((op) => partOf[op]).filter((part) => part !== partOf[producer]));
    const bytes = data.tensors.bytes[tensor];
    for (const part of targets) sent[part].in += bytes;
    if (targets.size) sent[partOf[producer]].out += bytes;
  });
  return sent;
}

function stagesCard() {
  const shares = data.stages.map((stage) => Math.ceil((stage.call + stage.incoming + stage.work + stage.overflow + stage.outgoing) / stage.devices.length));
  const most = Math.max(data.value, 1);
  const partOf = new Array(opCount).fill(0);
  data.stages.forEach((stage, i) => stage.ops.forEach((op) => (partOf[op] = i)));
  const sent = exchanged(partOf, data.stages.length);
  const rows = data.stages.map((stage, i) => ({ stage, i })).sort((a, b) => spanStart(a.stage) - spanStart(b.stage));
  const build = ({ stage, i }) => {
    const device = stage.devices[0];
    const share = stage.devices.length;
    const parts = [["the call", stage.call, "call-bar"], ["comes in", stage.incoming, "transfer-bar"], ["work", stage.work, ""], ["overflow", stage.overflow, "load-bar"], ["goes out", stage.outgoing, "transfer-bar"]];
    let at = 0;
    const bars = parts.map(([name, time, style]) => {
      const bar = partBar(at / share, time / share, most, style, style ? null : device, `${name}: ${showTime(time)}`);
      at += time;
      return bar;
    });
    const isLimit = shares[i] === data.value;
    const detail = parts.filter(([, time]) => time > 0).map(([name, time]) => `${name} ${showTime(time)}`).join(" · ");
    const devices = stage.devices.map(deviceName).join(", ");
    return [
      make("span", { class: "name" }, make("b", {}, `stage ${i + 1} `), deviceChip(device), share > 1 ? ` and ${share - 1} alike` : ""),
      make("div", { class: "track", title: devices }, bars, make("span", { class: "mark", style: { left: "calc(100% - 2px)" } })),
      make("span", { class: "figure" }, `${showTime(shares[i])} · `, isLimit ? make("span", { class: "badge decides" }, "bottleneck") : showShare(shares[i] / most)),
      make("span", { class: "argument" }, `${plural(stage.ops.length, "op")}: `, ends(stage.ops), ` · ${detail} · receives ${showSent(sent[i].in)} from other stages, sends them ${showSent(sent[i].out)}`),
    ];
  };
  return card(
    "stages",
    "Stages",
    null,
    make("p", { class: "note" }, "Every stage works on another request at the same time; a request leaves when the busiest stage is done. The mark is the period."),
    make("div", { style: { marginTop: "0.8rem" } }, showAll(rows, 32, build, most)),
    legend(
      used.slice(0, 16).map(deviceChip),
      someCalls && swatch("call-bar", "what a stage costs besides that: the call"),
      swatch("transfer-bar", "transfers in and out"),
      data.stages.some((stage) => stage.overflow > 0) && swatch("load-bar", "overflow of fast memory"),
      swatch("mark-bar", `the period: ${showTime(data.value)}`),
    ),
  );
}

/** When a stage of the one request that is followed begins. */
const spanStart = (stage) => spanOf.get(stage.ops[0])?.start ?? 0;

/** Runs of ops on one device, along the order of the network. */
function runsCard() {
  const runs = [];
  const partOf = new Array(opCount).fill(0);
  for (const op of order) {
    if (runs.length === 0 || runs[runs.length - 1].device !== opDevice(op)) runs.push({ device: opDevice(op), ops: [], time: 0 });
    const run = runs[runs.length - 1];
    run.ops.push(op);
    run.time += timeOn(op, run.device) ?? 0;
    partOf[op] = runs.length - 1;
  }
  const sent = exchanged(partOf, runs.length);
  const most = Math.max(data.value, 1);
  const build = ({ run, i }) => [
    make("span", { class: "name" }, make("b", {}, `${i + 1} `), deviceChip(run.device)),
    make("div", { class: "track" }, partBar(0, run.time, most, "", run.device), make("span", { class: "mark", style: { left: "calc(100% - 2px)" } })),
    make("span", { class: "figure" }, `${showTime(run.time)} · ${showShare(run.time / most)}`),
    make("span", { class: "argument" }, `${plural(run.ops.length, "op")}: `, ends(run.ops), ` · receives ${showSent(sent[i].in)} from other runs, sends them ${showSent(sent[i].out)}`),
  ];
  return card(
    "stages",
    "Runs of ops",
    null,
    make("p", { class: "note" }, `Along the network the device changes ${plural(runs.length - 1, "time")}. A device may hold several runs; their loads add up. The mark is the period.`),
    make("div", { style: { marginTop: "0.8rem" } }, showAll(runs.map((run, i) => ({ run, i })), 24, build, most)),
    legend(used.slice(0, 16).map(deviceChip), swatch("mark-bar", `the period: ${showTime(data.value)}`)),
  );
}

/** Value and bound over the time of the search. */
function historyCard() {
  const points = data.history.filter((point) => point[1] !== null || point[2] !== null);
  if (points.length < 2) return null;
  // Drawn at about the size it is shown in, so that its text can be read on a phone, too.
  const [width, height, left, right, top, bottom] = [narrow() ? 360 : 900, narrow() ? 220 : 240, 76, 14, 14, 32];
  const seconds = Math.max(points[points.length - 1][0], 1e-6);
  const values = points.flatMap((point) => [point[1], point[2]]).filter((value) => value !== null && value > 0);
  const final = points[points.length - 1];
  // The first guesses are often far off: what matters is near the end.
  const high = Math.min(Math.max(...values), (final[1] ?? Math.max(...values)) * 1.6);
  const low = Math.max(Math.min(...values), (final[2] ?? Math.min(...values)) * 0.55);
  const [ceiling, floor] = [high + (high - low) * 0.08 + 1, Math.max(0, low - (high - low) * 0.08 - 1)];
  // The axis begins on a mark.
  const least = roundDown(Math.max(Math.min(...points.map((point) => point[0]).filter((s) => s > 0), seconds) * 0.8, seconds / 1e4));
  const x = (s) => left + ((Math.log(Math.max(s, least)) - Math.log(least)) / Math.max(Math.log(seconds * 1.05) - Math.log(least), 1e-9)) * (width - left - right);
  const y = (value) => top + ((ceiling - clamp(value, floor, ceiling)) / (ceiling - floor)) * (height - top - bottom);
  const steps = (column) => {
    let line = "";
    let last = null;
    for (const point of points) {
      if (point[column] === null) continue;
      line += last === null ? `M${x(point[0])},${y(point[column])}` : `H${x(point[0])}V${y(point[column])}`;
      last = point[column];
    }
    return last === null ? "" : `${line}H${width - right}`;
  };
  const ticks = timeMarks(floor, ceiling, 5);
  let until = -Infinity;
  const times = secondMarks(least, seconds, width < 500 ? 5 : 8).filter(({ at, text }) => {
    const [middle, half] = [clamp(x(at), left + 10, width - right - 12), 3.8 * text.length];
    const fits = middle - half >= until + 6;
    if (fits) until = middle + half;
    return fits;
  });
  const dots = points.flatMap((point, i) =>
    [1, 2].filter((column) => point[column] !== null && (i === 0 || points[i - 1][column] !== point[column])).map((column) =>
      draw("circle", {
        cx: x(point[0]), cy: y(point[column]), r: 4, fill: column === 1 ? "var(--ink)" : "var(--bound)",
        onpointermove: (event) => showTip(event.clientX, event.clientY, column === 1 ? "a better plan" : "a better bound", [["value", showTime(point[column])], ["after", `${digits(point[0], 3)} s`], ["by", point[3] ?? "unknown"]]),
        onpointerleave: hideTip,
      }),
    ),
  );
  const chart = draw(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Value and bound over the time of the search" },
    ticks.map(({ at, text }) => [draw("line", { class: "axis", x1: left, x2: width - right, y1: y(at), y2: y(at) }), draw("text", { class: "mark-y", x: left - 8, y: y(at) + 4, "text-anchor": "end" }, text)]),
    times.map(({ at, text }) => [draw("line", { class: "axis", x1: x(at), x2: x(at), y1: height - bottom, y2: height - bottom + 5 }), draw("text", { class: "mark-x", x: clamp(x(at), left + 10, width - right - 12), y: height - 10, "text-anchor": "middle" }, text)]),
    draw("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    draw("path", { d: steps(1), fill: "none", stroke: "var(--ink)", "stroke-width": 2 }),
    draw("path", { d: steps(2), fill: "none", stroke: "var(--bound)", "stroke-width": 2, "stroke-dasharray": "6 3" }),
    dots,
  );
  return card(
    "search",
    "The search over time",
    null,
    chart,
    legend(swatch("plan-line", "best plan so far"), swatch("bound-line", "best lower bound so far"), make("span", {}, "time of the search runs on a logarithmic scale")),
  );
}

function aboutCard() {
  const origin = Object.entries(data.op_times).filter(([, share]) => share > 0).map(([name, share]) => `${showShare(share)} ${name}`).join(", ");
  const constraints = Object.entries(data.constraints)
    .filter(([name, value]) => value !== false && !(name === "memory_rule" && value === "all"))
    .map(([name, value]) => {
      const isMap = value !== null && typeof value === "object" && !Array.isArray(value) && Object.values(value).every((one) => typeof one === "string");
      const text = isMap ? Object.entries(value).map(([op, device]) => `${op} → ${device}`).join(", ") : JSON.stringify(value);
      const shown = text.length <= 160 ? text : plural(Object.keys(value).length, "entry", "entries");
      return make("div", {}, `${name.replace("_", " ")}: `, make("span", { class: "mono" }, shown));
    });
  const rows = [
    ["Network", `${data.name}, ${plural(opCount, "op")}`],
    ["Hardware", data.hardware_is ? `${data.hardware}: ${data.hardware_is}` : data.hardware],
    ["Question", data.objective.what],
    ["Plan found by", data.found_by],
    isPeriod ? ["One request alone", `takes ${showTime(data.latency)} from end to end`] : null,
    data.energy_uj === null ? null : ["Energy", `${digits(data.energy_uj / 1e6, 4)} J while busy`],
    ["Op times", origin || "all zero"],
    constraints.length ? ["Constraints", constraints] : null,
    ...data.sources.map(([role, where]) => [capital(role), make("span", { class: "mono" }, where)]),
    ...data.notes.map((note) => ["Note", note]),
  ];
  return card("about", "About this plan", null, make("dl", { class: "facts" }, rows.filter(Boolean).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
}
