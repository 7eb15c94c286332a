// The verdict, the questions a newcomer asks, and how good the plan is: every bound by name.

const bestBound = data.bounds[0] ?? null;
const bestVerified = data.bounds.find((bound) => bound.verified) ?? null;
const isProved = bestVerified !== null && bestVerified.value === data.value;
const isAttested = !isProved && bestBound !== null && bestBound.value === data.value;

/** Where the time of the critical path goes: lanes by share, and what no lane accounts for. */
function pathShares() {
  const byLane = new Map();
  let covered = 0;
  for (const span of path) {
    byLane.set(span.lane, (byLane.get(span.lane) ?? 0) + span.length);
    covered += span.length;
  }
  const shares = [...byLane].map(([lane, time]) => ({ lane, time })).sort((a, b) => b.time - a.time);
  return { shares, waiting: data.value - covered };
}

/** Devices and links by load, the busiest first. */
function loads() {
  const devices = used.map((device) => ({ name: deviceName(device), device, busy: data.devices[device].busy }));
  const links = data.links.map((link) => ({ name: link.name, busy: link.busy }));
  // A stage pays for its transfers itself; only a stream waits for links.
  const counted = data.objective.name === "pipeline" ? devices : [...devices, ...links];
  return counted.sort((a, b) => b.busy - a.busy);
}

function bottleneck() {
  if (isPeriod) {
    const [first, second] = loads();
    const stage = data.stages?.findIndex((one) => one.devices.includes(first.device));
    const where = stage >= 0 ? `Stage ${stage + 1} on ${first.name}` : first.name;
    const next = second ? ` The next busiest, ${second.name}, has ${showShare(second.busy / first.busy)} of that load.` : "";
    const under = second ? `next: ${showShare(second.busy / first.busy)}` : "it does everything";
    return { figure: first.name, under, text: `${where} is busy for all of the ${showTime(data.value)}.${next}` };
  }
  const { shares, waiting } = pathShares();
  if (shares.length === 0) return { figure: "nothing", under: "no op takes time", text: "No op takes any time." };
  const name = ({ lane, time }) => `${showShare(time / data.value)} on ${laneName(lane)}`;
  const transfers = shares.filter((one) => one.lane >= deviceCount).reduce((sum, one) => sum + one.time, 0);
  const rest = waiting > 0.0005 * data.value ? ` ${showShare(waiting / data.value)} is inputs and outputs on their way.` : "";
  const more = shares.length > 4 ? ` and ${shares.length - 4} more` : "";
  return {
    figure: laneName(shares[0].lane),
    under: `${showShare(shares[0].time / data.value)} of the critical path`,
    text: `The critical path, ${plural(path.length, "step")} long, spends ${shares.slice(0, 4).map(name).join(", ")}${more}.` +
      ` Transfers are ${showShare(transfers / data.value)} of it.${rest}`,
  };
}

/** The single move that gains most, or costs least. */
function bestMove() {
  let best = null;
  data.moves.ops.forEach((op, row) => {
    data.moves.rows[row].forEach((value, column) => {
      if (value !== null && value >= 0 && (best === null || value < best.value)) {
        best = { op, value, to: data.moves.targets[column] };
      }
    });
  });
  return best;
}

function placesInWords() {
  const list = used.slice(0, 8).map((device) => {
    const { ops, busy, pieces } = data.devices[device];
    const cut = pieces > 0 ? ` in ${plural(pieces, "piece")}` : "";
    const does = ops > 0 ? plural(ops, sharesOf.size ? "batch" : "op", sharesOf.size ? "batches" : undefined) : "only copies";
    return [deviceChip(device), ` ${does}${cut}, busy ${showTime(busy)}`];
  });
  const parts = list.flatMap((item, i) => (i ? ["; ", ...item] : item));
  const idle = deviceCount - used.length;
  if (used.length > 8) parts.push(`; and ${used.length - 8} more`);
  if (idle > 0) parts.push(`; ${plural(idle, "device")} idle`);
  return [...parts, "."];
}

/** The badge of a verified bound: green only where the times that it is about were measured. */
function verifiedBadge(isShort = false) {
  const { kind } = data.basis;
  if (kind === "measured") return make("span", { class: "badge verified" }, "verified");
  if (isShort) return make("span", { class: "badge warn" }, "verified");
  return make("span", { class: "badge warn" }, `verified for ${kind === "mixed" ? "times not all measured" : `${kind} times`}`);
}

/** What the times rest on, how far off they are, and what brings better ones. */
function basisInWords() {
  const { kind, what, how_far: howFar, to_measure: commands } = data.basis;
  if (kind === "measured") return [make("span", { class: "badge verified" }, "measured"), " Every op time was measured on its class of devices."];
  const then = commands.length ? [" To have them measured:", make("div", { class: "advice" }, commandLines(commands))] : [" Bring measured times with --profile."];
  const basis = ` ${capital(what)}${howFar ? `; ${howFar}` : ""}. The proof is about these times, not about the machine.`;
  return [make("span", { class: "badge warn" }, kind), withCode(basis), ...then];
}

function proofInWords() {
  if (isProved) {
    return [verifiedBadge(), ` The bound ${bestVerified.name} equals the ${valueName} to the picosecond, and its evidence was checked.`];
  }
  if (bestBound === null) return [make("span", { class: "badge plain" }, "no bound"), " Nothing is proved about it."];
  const verified = bestVerified
    ? [verifiedBadge(), ` No plan is below ${showTime(bestVerified.value)} (${bestVerified.name}).`]
    : [];
  const attested = bestBound.verified
    ? []
    : [" ", make("span", { class: "badge attested" }, "attested"), ` A search vouches for ${showTime(bestBound.value)} (${bestBound.name}); that is not checked here.`];
  return [...verified, ...attested];
}

function changeInWords() {
  const parts = [];
  if (isProved) parts.push("No other plan for this network, hardware and question is better; only a change of one of these can help. ");
  else if (bestBound && bestBound.value < data.value) parts.push(`A longer search may find a better plan, by ${showTime(data.value - bestBound.value)} at most. `);
  const move = bestMove();
  if (move) {
    const change = move.value - data.value;
    const what = [opButton(move.op), ` to ${deviceName(move.to)}`];
    const looked = data.moves.ops.length < opCount ? ` of the ${showCount(data.moves.ops.length)} ops that matter most` : " of an op";
    if (change < 0) parts.push("Moving ", ...what, ` alone would save ${showTime(-change)}. `);
    else if (change === 0) parts.push(`No single move${looked} helps; moving `, ...what, " would change nothing. ");
    else parts.push(`Every single move${looked} costs something; the cheapest, `, ...what, `, costs ${showTime(change)}. `);
  }
  if (isPeriod) {
    const [first, second] = loads();
    if (second) parts.push(`Relieving ${first.name} alone can bring the period down to ${showTime(second.busy)} at best, the load of ${second.name}.`);
  } else if (path.length) {
    parts.push("Only what shortens the critical path can help.");
  }
  return parts;
}

/** Text in which names stand between backticks. */
const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

/** Commands for a shell, one below the other; a long one goes on further in. */
const commandLines = (commands) => commands.length > 0 && make("pre", {}, commands.map((line) =>
  // A line breaks between words only.
  make("code", {}, line.split(" ").flatMap((word, i) => [i ? " " : "", make("span", {}, word)]), "\n")));

/** Things to try, each with its commands. */
function adviceList(list) {
  if (list.length === 0) return null;
  return make("ul", { class: "advice" }, list.map(({ what, commands }) =>
    make("li", {}, make("p", {}, withCode(what)), commandLines(commands))));
}

/** What is left without each device, and the command that plans anew. */
function lossesInWords() {
  if (data.losses.length === 0) return ["No device has anything to do."];
  const line = ({ device, only_there: alone, to, value, advice }) => {
    const name = deviceChip(device);
    const told = advice && [make("p", { class: "note" }, withCode(advice.what)), commandLines(advice.commands)];
    if (alone !== null) return make("li", {}, make("p", {}, "Without ", name, " there is no plan: ", opButton(alone), " can run nowhere else."));
    const longer = value === null ? "" : value === data.value ? ", as now" : ` (${value < data.value ? "−" : "+"}${showShare(Math.abs(value - data.value) / Math.max(data.value, 1))})`;
    const kept = value === null
      ? [" no single device can take over all of its ops as they are; plan anew."]
      : [` the ${valueName} is at most ${showTime(value)}${longer}, with its ops on `, deviceChip(to), "."];
    return make("li", {}, make("p", {}, "Without ", name, kept), told);
  };
  const [shown, more] = [data.losses.slice(0, MOST_LOSSES), data.losses.slice(MOST_LOSSES)];
  const list = make("ul", { class: "advice", id: "losses" }, shown.map(line));
  const button = more.length > 0 && make("button", { type: "button", onclick: () => {
    button.remove();
    list.append(...more.map(line));
  } }, `Show ${plural(more.length, "more device")}`);
  return [list, button];
}

/** Devices whose loss is told at once. */
const MOST_LOSSES = 4;

function gapInWords() {
  if (isProved) return ["none", verifiedBadge()];
  if (bestBound === null) return ["unknown", make("span", { class: "badge plain" }, "no bound")];
  const badge = bestBound.verified ? verifiedBadge() : make("span", { class: "badge attested" }, "attested");
  const figure = isAttested ? "none" : bestBound.gap === null ? "unknown" : `≤ ${bestBound.gap}`;
  return [figure, badge];
}

function verdictCard() {
  const tile = (label, figure, under) =>
    make("div", { class: "tile" }, make("div", { class: "label" }, label), make("div", { class: "figure" }, figure), make("div", { class: "under" }, under));
  const [gap, badge] = gapInWords();
  const limit = bottleneck();
  const rate = data.objective.inputs / (data.value / 1e12);
  const single = data.one_device;
  const against = single.value === undefined ? "–" : showTimes(single.value / Math.max(data.value, 1));
  const answers = [
    ["How fast is it?", [`${data.verdict[0]}, ${data.verdict[1]}. ${limit.text}`]],
    ["How sure is that?", [`${capital(data.verdict[2])}. `, proofInWords()]],
    ["What do the times rest on?", basisInWords()],
    ["What runs where, and why?", [placesInWords(), " ", firstWhy()]],
    ["What would change it?", [changeInWords(), adviceList(data.next)]],
    ["What if a device goes?", lossesInWords()],
    ...(measured ? [["What was measured?", measuredInWords()]] : []),
  ];
  const [first, ...others] = data.verdict;
  return make(
    "section",
    { class: "card", id: "verdict", "data-title": "Verdict" },
    make("p", { class: "eyebrow" }, `${data.name} on ${data.hardware} · ${data.objective.what} · ${plural(opCount, "op")}, ${plural(deviceCount, "device")}`),
    make("h1", {}, `${first}: ${others.join("; ")}.`),
    make(
      "div",
      { class: "tiles" },
      tile(capital(valueName), showTime(data.value), isPeriod || data.objective.inputs > 1 ? `${digits(rate, 4)} inputs per second` : "from first op to last"),
      tile("Against one device", against, single.value === undefined ? single.reason : `${deviceName(single.device)} alone: ${showTime(single.value)}`),
      tile("Gap to the best possible", gap, badge),
      tile("Bottleneck", limit.figure, limit.under),
    ),
    make("dl", { class: "answers" }, answers.flatMap(([question, answer]) => [make("dt", {}, question), make("dd", {}, answer)])),
  );
}

/** How a run that was measured compares. */
function measuredInWords() {
  const all = measured.filter(Boolean);
  if (all.length === 0) return ["The trace is empty."];
  const took = largest(all, (span) => span.end) + largest(all, (span) => -span.start, -Infinity);
  const expected = isPeriod ? data.latency : data.value;
  const share = (took - expected) / Math.max(expected, 1);
  return [`From first to last it took ${showTime(took)}, against ${showTime(expected)} predicted (${share < 0 ? "−" : "+"}${showShare(Math.abs(share))}).`];
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The gap to a bound; beyond some factors its digits say nothing. */
const farOff = (bound) => (data.value > 11 * bound.value ? "gap over 1000\u00a0%" : `gap ${bound.gap}`);

/** The gauge: what is proved to be out of reach, what may still be gained, the plan, one device; then every bound. */
function qualityCard() {
  const single = data.one_device.value;
  const most = Math.max(data.value, single ?? 0, 1);
  const at = (value) => `${clamp((value / most) * 100, 0, 100)}%`;
  const verified = bestVerified?.value ?? 0;
  const best = Math.max(bestBound?.value ?? 0, verified);
  const bar = (name, from, to) => make("span", { class: name, style: { left: at(from), width: `calc(${at(to)} - ${at(from)})` } });
  const gauge = make(
    "div",
    { class: "gauge", role: "img", "aria-label": `${data.verdict[2]}` },
    make(
      "div",
      { class: "track" },
      bar("verified-bar", 0, verified),
      bar("attested-bar", verified, best),
      bar("gap-bar", best, data.value),
      make("span", { class: "mark", style: { left: `calc(${at(data.value)} - 2px)`, width: "3px" } }),
    ),
  );
  const row = (name, value, style, figure, argument) => [
    make("span", { class: "name" }, name),
    make("div", { class: "track" }, make("span", { class: style, style: { width: at(value) } }), make("span", { class: "mark", style: { left: `calc(${at(data.value)} - 2px)` } })),
    make("span", { class: "figure" }, figure),
    argument && make("span", { class: "argument" }, argument),
  ];
  const rows = [
    row(make("b", {}, "this plan"), data.value, "plan-bar", showTime(data.value)),
    single === undefined ? [] : row(`one device (${deviceName(data.one_device.device)})`, single, "baseline-bar", showTime(single)),
    data.bounds.map((bound) =>
      row(
        [bound.name, " ", bound.verified ? verifiedBadge(true) : make("span", { class: "badge attested" }, "attested")],
        bound.value,
        bound.verified ? "verified-bar" : "attested-bar",
        bound.gap === null ? showTime(bound.value) : bound.value === data.value ? `${showTime(bound.value)} · no gap` : `${showTime(bound.value)} · ${farOff(bound)}`,
        bound.argument,
      ),
    ),
  ];
  return card(
    "quality",
    "How good it is",
    null,
    make("p", { class: "note" }, `No plan can be below a lower bound. What is left between the best bound and this plan is the most that a better plan could still gain.`),
    gauge,
    make("div", { style: { marginBottom: "1rem" } }, legend(
      verified > 0 && swatch("verified-bar", `out of reach, verified: up to ${showTime(verified)}`),
      best > verified && swatch("attested-bar", `out of reach, attested: up to ${showTime(best)}`),
      best < data.value && swatch("gap-bar", `may still be gained: at most ${showTime(data.value - best)}`),
      swatch("mark-bar", `this plan: ${showTime(data.value)}`),
      single !== undefined && swatch("baseline-bar", `one device: ${showTime(single)}`))),
    make("div", { class: "bars" }, rows.flat(3), barScale(most)),
    data.bounds.length === 0 ? make("p", { class: "note" }, "The plan file holds no bound.") : null,
  );
}
