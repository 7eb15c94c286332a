// One op: found by its name, and why it is where it is.

const MOST_RESULTS = 60;
const rowOf = new Map(data.moves.ops.map((op, row) => [op, row]));

/** What an op can be found by. */
const wordsOf = Array.from({ length: opCount }, (_, op) =>
  [opName(op), opKind(op), deviceName(opDevice(op)), ...(data.ops.members?.[op] ?? [])].join("\n").toLowerCase());

/** What it costs to have an op where it is best but here, alone: nothing if it may move for free or is not known. */
const regretOf = new Map(data.moves.ops.map((op, row) => {
  const others = data.moves.rows[row].filter((value) => value !== null && value >= 0);
  return [op, others.length ? Math.max(0, Math.min(...others) - data.value) : 0];
}));
const regret = (op) => regretOf.get(op) ?? 0;
const limits = (op) => isCritical[op] || (isPeriod && data.devices[opDevice(op)].busy === data.value ? 1 : 0);

/** Ops by how much they matter: whose move would cost most, then those that decide the value, then by time. */
const byImportance = Array.from({ length: opCount }, (_, op) => op)
  .sort((a, b) => regret(b) - regret(a) || limits(b) - limits(a) || plannedTime[b] - plannedTime[a] || a - b);
const someRegret = byImportance.length > 0 && regret(byImportance[0]) > 0;

/** The op that matters most, and why it is where it is. */
function firstWhy() {
  const op = byImportance[0];
  if (op === undefined || !rowOf.has(op)) return null;
  return [someRegret ? "The op that matters most is " : "The longest of the ops that decide it is ", opButton(op), " on ", deviceChip(opDevice(op)), ": ", lowered(whyOf(op))];
}

const lowered = (text) => text.charAt(0).toLowerCase() + text.slice(1);

function opCard(reveal) {
  const results = make("ul", { class: "results", id: "results", role: "listbox", "aria-label": "Ops found" });
  const count = make("p", { class: "note", id: "found", "aria-live": "polite" });
  const details = make("div", { id: "op" });
  let found = [];
  let active = -1;
  const input = make("input", {
    type: "search", id: "filter", placeholder: "Find ops by name, kind or device", autocomplete: "off", spellcheck: "false",
    role: "combobox", "aria-label": "Find ops", "aria-controls": "results", "aria-expanded": "true",
    oninput: look,
    onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        move(event.key === "ArrowDown" ? 1 : -1);
        event.preventDefault();
      } else if (event.key === "Enter" && found.length) {
        select(found[Math.max(active, 0)]);
      } else if (event.key === "Escape") {
        input.value = "";
        look();
      }
    },
  });

  function look() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = words.length ? byImportance.filter((op) => words.every((word) => wordsOf[op].includes(word))) : byImportance;
    found = matches.slice(0, words.length ? MOST_RESULTS : 6);
    active = -1;
    filter(words.length ? new Set(matches) : null);
    const shownOf = matches.length > found.length ? `, the first ${found.length} listed` : "";
    count.textContent = words.length ? `${plural(matches.length, "op")} found${shownOf}` : someRegret ? "Ops whose move would cost most:" : "The longest of the ops that decide it:";
    results.replaceChildren(...found.map((op, i) =>
      make("li", { role: "option", id: `result-${i}`, "aria-selected": "false", onclick: () => select(op) },
        make("span", { class: "name chip", own: deviceColour(opDevice(op)) }, opName(op)), make("span", { class: "figure" }, words.length || !someRegret ? showTime(plannedTime[op]) : regret(op) ? `+${showTime(regret(op))}` : "no change"))));
    results.hidden = found.length === 0;
  }

  function move(step) {
    if (found.length === 0) return;
    active = clamp(active + step, 0, found.length - 1);
    [...results.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    results.children[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `result-${active}`);
  }

  function show() {
    if (state.op === null) {
      details.replaceChildren(make("p", { class: "note" }, "Choose an op here, in the timeline or in the network to see why it is where it is."));
      return;
    }
    details.replaceChildren(...opDetails(state.op, reveal).filter(Boolean));
  }

  on("select", () => {
    show();
    // Where the panel is below everything else, a choice above would go unseen.
    if (matchMedia("(max-width: 68rem)").matches) made.scrollIntoView({ block: "start" });
  });
  const made = make("section", { class: "card", id: "why", "data-title": "Why" },
    make("div", { class: "head" }, make("h2", {}, "Why is an op there?")),
    make("div", { class: "search" }, input), count, results, details);
  look();
  // What matters most is told first; choosing it here must not make the page jump.
  if (byImportance.length > 0) state.op = byImportance[0];
  show();
  return made;
}

const isPinned = (op) => data.constraints.pin !== undefined && Object.hasOwn(data.constraints.pin, opName(op));

function opDetails(op, reveal) {
  const span = spanOf.get(op);
  const shares = sharesOf.get(op);
  const where = shares ? shares.flatMap(([device, size], i) => [i ? ", " : "", deviceChip(device), ` ${plural(size, "input")}`]) : [deviceChip(opDevice(op))];
  const neighbours = (tensors, other) => {
    const list = [];
    for (const tensor of tensors) for (const one of other(tensor)) list.push([one, data.tensors.bytes[tensor]]);
    return list;
  };
  const makers = neighbours(inputsOf[op], (tensor) => (data.tensors.producer[tensor] === null ? [] : [data.tensors.producer[tensor]]));
  const readers = neighbours(outputsOf[op], (tensor) => data.tensors.consumers[tensor]);
  const lines = (list) => {
    const shown = list.slice(0, 6).map(([one, bytes]) =>
      make("div", {}, opButton(one), ` ${showBytes(bytes)}`, opDevice(one) === opDevice(op) ? "" : [" · ", deviceChip(opDevice(one))]));
    return list.length > 6 ? [...shown, make("div", { class: "soft" }, `and ${list.length - 6} more`)] : shown;
  };
  const members = data.ops.members?.[op] ?? [];
  const facts = [
    ["Runs on", where],
    opKind(op) ? ["Kind", opKind(op)] : null,
    ["Takes", showTime(plannedTime[op])],
    measuredTime.has(op) ? ["Took", `${showTime(measuredTime.get(op))} when measured`] : null,
    span ? ["From", `${showTime(span.start)} to ${showTime(span.end)}`] : null,
    data.ops.weights[op] ? ["Weights", showBytes(data.ops.weights[op])] : null,
    isPinned(op) ? ["Pinned to", data.constraints.pin[opName(op)]] : null,
    makers.length ? ["Reads from", lines(makers)] : ["Reads from", "the network's inputs"],
    readers.length ? ["Read by", lines(readers)] : null,
    members.length ? ["Merged with", `${members.slice(0, 4).join(", ")}${members.length > 4 ? ` and ${members.length - 4} more` : ""}`] : null,
  ];
  return [
    make("div", { class: "op-name", id: "op-name" }, opName(op)),
    make("div", { class: "tools", style: { margin: "0.3rem 0" } },
      isCritical[op] ? make("span", { class: "badge decides" }, "on the critical path") : path.length ? make("span", { class: "badge plain" }, "not on the critical path") : null,
      make("button", { type: "button", onclick: () => reveal(op) }, "show in the network")),
    make("dl", { class: "facts" }, facts.filter(Boolean).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("h3", {}, "If it alone ran elsewhere"),
    ...whyTable(op),
  ];
}

/** What moving the op alone to each device would cost, and that in a sentence. */
function whyTable(op) {
  const row = rowOf.get(op);
  if (row === undefined) {
    return [make("p", { class: "note" }, `Not worked out: of ${plural(opCount, "op")} this report looked at the ${showCount(data.moves.ops.length)} that matter most. `,
      make("code", {}, "divvy report PLAN --all-moves"), " looks at every one.")];
  }
  const { cells, others, best } = movesOf(op);
  const ownTime = (device) => {
    const time = timeOn(op, device);
    return time === null || time === undefined ? "–" : showTime(time);
  };
  const change = (value) => {
    const difference = value - data.value;
    if (difference === 0) return make("span", {}, "no change");
    const share = data.value ? ` (${difference > 0 ? "+" : "−"}${showShare(Math.abs(difference) / data.value)})` : "";
    return make("span", { class: difference > 0 ? "worse" : "better" }, `${difference > 0 ? "+" : "−"}${showTime(Math.abs(difference))}`, make("span", { class: "soft" }, share));
  };
  const lines = cells.map(({ value, device }) =>
    make("tr", {}, make("td", {}, deviceChip(device)), make("td", { class: "number" }, ownTime(device)),
      value === null
        ? make("td", { class: "soft" }, "runs here")
        : value < 0
          ? make("td", { class: "soft" }, `not possible: ${reasonOf(value)}`)
          : make("td", {}, change(value), make("div", { class: "soft because" }, because(op, device, value)))));
  return [
    make("p", { class: "note", id: "why-sentence" }, whySentence(op, best, others)),
    make("div", { class: "scroll" }, make("table", { id: "moves" },
      make("thead", {}, make("tr", {}, make("th", {}, "device"), make("th", { class: "number" }, data.objective.inputs > 1 ? `its time, ${data.objective.inputs} inputs` : "its time"), make("th", {}, valueName))),
      make("tbody", {}, lines))),
    data.moves.targets.length < deviceCount ? make("p", { class: "note" }, "Of idle devices that are alike, one is shown.") : null,
  ];
}

/** The places of an op in the table of moves: all, the others, and the best of those that are possible. */
function movesOf(op) {
  const cells = data.moves.rows[rowOf.get(op)].map((value, i) => ({ value, device: data.moves.targets[i] }));
  const others = cells.filter((cell) => cell.value !== null);
  const possible = others.filter((cell) => cell.value >= 0);
  return { cells, others, best: possible.reduce((least, cell) => (least === null || cell.value < least.value ? cell : least), null) };
}

const reasonOf = (value) => data.moves.reasons[-1 - value];
const whyOf = (op) => {
  const { others, best } = movesOf(op);
  return whySentence(op, best, others);
};

/** What crosses between devices around an op if it runs on `device`, the rest as it is; a tensor goes once to each device. */
function crossings(op, device) {
  const crossing = { tensors: 0, bytes: 0 };
  const add = (tensor, times) => {
    crossing.tensors += times;
    crossing.bytes += times * data.tensors.bytes[tensor];
  };
  for (const tensor of new Set(inputsOf[op])) {
    const producer = data.tensors.producer[tensor];
    if (producer === null || opDevice(producer) === device) continue;
    // Where another reader has it sent anyway, this one costs nothing more.
    if (!data.tensors.consumers[tensor].some((one) => one !== op && opDevice(one) === device)) add(tensor, 1);
  }
  for (const tensor of outputsOf[op]) {
    const targets = new Set(data.tensors.consumers[tensor].map(opDevice));
    targets.delete(device);
    add(tensor, targets.size);
  }
  return crossing;
}

/** What would be different on another device, in words; without a full stop. */
function because(op, device, value) {
  const here = opDevice(op);
  const [own, there] = [timeOn(op, here), timeOn(op, device)];
  const parts = [];
  if (there > own) parts.push(`it takes ${showTime(there)} there, ${showTime(own)} here`);
  const [now, then] = [crossings(op, here), crossings(op, device)];
  const [tensors, bytes] = [then.tensors - now.tensors, then.bytes - now.bytes];
  if (tensors > 0) parts.push(`${plural(tensors, "more tensor")} would cross between devices${bytes > 0 ? `, ${showBytes(bytes)} more` : ""}`);
  else if (bytes > 0) parts.push(`${showBytes(bytes)} more would cross between devices`);
  const work = data.devices[device].busy + (there ?? 0);
  if (isPeriod && work > data.value) parts.push(`${deviceName(device)} would have ${showTime(work)} of work`);
  const weights = data.ops.weights[op];
  if (data.routes && weights > 0) parts.push(`its ${showBytes(weights)} of weights would come another way`);
  if (value > data.value && parts.length === 0) parts.push(isPeriod ? "what it reads and makes would take a busier way" : "it would wait for its turn there, or others for theirs");
  if (value < data.value) return there < own ? `it takes ${showTime(there)} there, ${showTime(own)} here` : tensors < 0 ? `${plural(-tensors, "tensor")} fewer would cross between devices` : "";
  return value === data.value ? "" : parts.join("; ");
}

function whySentence(op, best, others) {
  if (isPinned(op)) return `It was pinned to ${data.constraints.pin[opName(op)]}.`;
  if (others.length === 0) return "There is no other device.";
  if (best === null) return `It cannot run anywhere else with the rest of the plan as it is: ${reasonOf(others[0].value)}.`;
  const difference = best.value - data.value;
  const reason = because(op, best.device, best.value);
  const name = deviceName(best.device);
  if (difference < 0) return `Moving it to ${name} would save ${showTime(-difference)}, everything else as it is${reason ? `: ${reason}` : ""}.`;
  if (difference === 0) return `On ${name} it would change nothing about the ${valueName}: other things decide that.`;
  const rest = others.filter((cell) => cell.value >= 0).length > 1 ? ", and on any other device no less" : others.length > 1 ? ", and no other device can take it" : "";
  return `On ${name} the plan would take ${showTime(difference)} more${rest}: ${reason}.`;
}
