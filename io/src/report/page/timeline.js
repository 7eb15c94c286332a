// The timeline: one lane for each device and link, on a canvas, since there may be thousands of spans.

/** Lanes in the order they are shown: devices in use, then links by load. Each with its spans by start. */
function timelineLanes() {
  const lanes = new Map();
  const add = (span, list) => {
    if (!span) return;
    if (!lanes.has(span.lane)) lanes.set(span.lane, { lane: span.lane, spans: [], measured: [] });
    lanes.get(span.lane)[list].push(span);
  };
  spans.forEach((span) => add(span, "spans"));
  (measured ?? []).forEach((span) => add(span, "measured"));
  const busy = (lane) => (lane < deviceCount ? Infinity : data.links[lane - deviceCount].busy);
  const sorted = [...lanes.values()].sort((a, b) => (busy(b.lane) === busy(a.lane) ? a.lane - b.lane : busy(b.lane) - busy(a.lane)));
  for (const lane of sorted) {
    for (const list of [lane.spans, lane.measured]) list.sort((a, b) => a.start - b.start || a.end - b.end);
    // With overlaps the end of a span says nothing of the next: how far back one has to look.
    lane.longest = lane.spans.reduce((most, span) => Math.max(most, span.length), 0);
  }
  return sorted;
}

const MOST_LANES = 28;
const DEVICE_LANE = 30;
const LINK_LANE = 24;
const MEASURED_PART = 0.42;
const STRIPE = 5;
const LABEL_SIZE = 11.5;
/** More steps of the critical path than this would hide what they connect. */
const MOST_STEPS = 250;

function timelineCard() {
  const every = timelineLanes();
  let lanes = every.slice(0, MOST_LANES);
  const total = largest([...spans, ...(measured ?? [])].filter(Boolean), (span) => span.end, Math.max(1, isPeriod ? 0 : data.value));
  const view = { from: 0, to: total };
  const canvas = make("canvas", {
    tabindex: 0, role: "img", id: "timeline-canvas",
    "aria-label": "Timeline. Arrow keys move, plus and minus zoom, Home shows all.",
  });
  const thumb = make("span");
  let emphasis = path.length > 0;
  let hovered = null;
  let colour = palette();

  const gutter = () => (canvas.clientWidth < 520 ? 74 : 128);
  const axis = 22;
  const laneHeight = (lane) => (lane.lane < deviceCount ? DEVICE_LANE : LINK_LANE);
  const height = () => axis + lanes.reduce((sum, lane) => sum + laneHeight(lane) + 4, 0) + 4;
  const x = (time) => gutter() + ((time - view.from) / (view.to - view.from)) * (canvas.clientWidth - gutter() - 4);
  const timeAt = (px) => view.from + ((px - gutter()) / (canvas.clientWidth - gutter() - 4)) * (view.to - view.from);

  function isDim(span) {
    if (state.matches !== null) return !matchesSpan(span);
    return emphasis && !span.critical;
  }

  function matchesSpan(span) {
    if (span.kind === 0) return state.matches.has(span.id);
    if (span.kind === 1) {
      const producer = data.tensors.producer[span.id];
      return producer !== null && state.matches.has(producer);
    }
    return false;
  }

  const isSelected = (span) => span.kind === 0 && span.id === state.op;

  /** The colour of a span: the device that runs an op has its own, and so have transfers and weights on their way. */
  const fillOf = (span) => colour(isLoad(span) ? "load" : span.kind === 3 ? "call" : span.kind === 1 ? "transfer" : colourOf.get(span.lane) ?? "idle");
  /** What is on its way says at its top which device it is for. */
  const stripeOf = (span) => (isLoad(span) || span.kind === 1 ? colour(colourOf.get(span.kind === 0 ? opDevice(span.id) : span.more) ?? "idle") : null);

  function paintAxis(context, width) {
    context.font = `${LABEL_SIZE}px system-ui, sans-serif`;
    context.textAlign = "center";
    const room = width - gutter() - 4;
    let marks = timeMarks(view.from, view.to, Math.max(2, Math.floor(room / (width < 520 ? 62 : 80))));
    // Deep in a timeline its marks have many digits: then there are fewer.
    const widest = () => largest(marks, ({ text }) => context.measureText(text).width) + 16;
    for (let most = marks.length; most > 1 && marks.length * widest() > room; most -= 1) marks = timeMarks(view.from, view.to, most);
    for (const { at, text } of marks) {
      context.strokeStyle = colour("line");
      context.beginPath();
      context.moveTo(Math.round(x(at)) + 0.5, axis);
      context.lineTo(Math.round(x(at)) + 0.5, height());
      context.stroke();
      context.fillStyle = colour("soft");
      const half = context.measureText(text).width / 2;
      context.fillText(text, clamp(x(at), gutter() + half, width - half - 2), 13);
    }
    canvas.dataset.marks = JSON.stringify(marks.map(({ text }) => text));
  }

  function paintLane(context, lane, top, tall, width) {
    const first = firstVisible(lane.spans, view.from - lane.longest);
    let lastPixel = -1;
    const bar = measured ? tall * (1 - MEASURED_PART) : tall;
    for (let i = first; i < lane.spans.length && lane.spans[i].start <= view.to; i += 1) {
      const span = lane.spans[i];
      if (span.end < view.from) continue;
      const left = Math.max(x(span.start), gutter());
      const right = Math.min(Math.max(x(span.end), left + 0.7), width);
      const important = span.critical || isSelected(span) || state.matches !== null;
      // Many spans within a pixel look like one.
      if (right - left < 1 && Math.floor(right) === lastPixel && !important) continue;
      lastPixel = Math.floor(right);
      context.globalAlpha = isDim(span) && !isSelected(span) ? 0.33 : 1;
      context.fillStyle = fillOf(span);
      context.fillRect(left, top, right - left, bar);
      const stripe = stripeOf(span);
      if (stripe) {
        context.fillStyle = stripe;
        context.fillRect(left, top, right - left, STRIPE);
      }
      if (right - left > 3) {
        context.fillStyle = colour("card");
        context.fillRect(right - 0.6, top, 0.6, bar);
      }
      context.globalAlpha = 1;
      if (span.critical && emphasis) {
        context.fillStyle = colour("critical");
        context.fillRect(left, top + bar - 3.5, right - left, 3.5);
      }
      if (isSelected(span) || span === hovered) {
        context.strokeStyle = colour(isSelected(span) ? "focus" : "ink");
        context.lineWidth = isSelected(span) ? 3 : 1.5;
        context.strokeRect(left - 0.5, top - 0.5, Math.max(right - left, 2) + 1, bar + 1);
      }
      if (right - left > 34 && tall >= LINK_LANE) paintLabel(context, span, left, right, top, bar);
    }
    for (const span of lane.measured) {
      if (span.end < view.from || span.start > view.to) continue;
      const left = Math.max(x(span.start), gutter());
      context.globalAlpha = 0.8;
      context.fillStyle = colour("measured");
      context.fillRect(left, top + bar + 2, Math.max(Math.min(x(span.end), width) - left, 0.7), tall - bar - 2);
      context.globalAlpha = 1;
    }
  }

  function paintLabel(context, span, left, right, top, tall) {
    const text = span.kind === 3 ? "call" : span.kind === 0 ? shortName(opName(span.id)) : span.kind === 2 ? shortName(data.params.name[span.id]) : showBytes(data.tensors.bytes[span.id]);
    const room = Math.floor((right - left - 6) / 6.1);
    if (room < 3) return;
    context.save();
    context.beginPath();
    context.rect(left, top, right - left - 2, tall);
    context.clip();
    context.globalAlpha = isDim(span) && !isSelected(span) ? 0.6 : 1;
    context.fillStyle = isDim(span) ? colour("ink") : inkOn(fillOf(span));
    context.font = `${LABEL_SIZE}px system-ui, sans-serif`;
    context.textAlign = "left";
    const middle = stripeOf(span) ? top + STRIPE + (tall - STRIPE) / 2 : top + tall / 2;
    context.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, left + 4, middle + 4);
    context.restore();
  }

  /** The last step of the critical path on one lane leads to the next on another. */
  function paintPath(context, middle) {
    const inView = path.filter((span) => span.end >= view.from && span.start <= view.to).length;
    if (inView > MOST_STEPS) return;
    context.strokeStyle = colour("critical");
    context.lineWidth = 1;
    context.globalAlpha = 0.55;
    context.beginPath();
    for (let i = 1; i < path.length; i += 1) {
      const [before, after] = [path[i - 1], path[i]];
      if (before.lane === after.lane || !middle.has(before.lane) || !middle.has(after.lane)) continue;
      if (after.start < view.from || before.end > view.to) continue;
      context.moveTo(x(before.end), middle.get(before.lane));
      context.lineTo(x(after.start), middle.get(after.lane));
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  let scheduled = false;
  function repaint() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      paint();
    });
  }

  function paint() {
    const width = canvas.clientWidth;
    if (width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const tall = height();
    canvas.style.height = `${tall}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.clearRect(0, 0, width, tall);
    paintAxis(context, width);
    const middle = new Map();
    let top = axis + 2;
    for (const lane of lanes) {
      const size = laneHeight(lane);
      context.fillStyle = colour("track");
      context.globalAlpha = 0.45;
      context.fillRect(gutter(), top, width - gutter(), size);
      context.globalAlpha = 1;
      paintLane(context, lane, top, size, width);
      middle.set(lane.lane, top + size / 2);
      top += size + 4;
    }
    if (emphasis && state.matches === null) paintPath(context, middle);
    paintNames(context, tall);
    thumb.style.left = `${(view.from / total) * 100}%`;
    thumb.style.width = `${((view.to - view.from) / total) * 100}%`;
    canvas.dataset.from = view.from;
    canvas.dataset.to = view.to;
  }

  function paintNames(context, tall) {
    context.fillStyle = colour("card");
    context.fillRect(0, 0, gutter() - 4, tall);
    context.textAlign = "left";
    let top = axis + 2;
    const room = Math.floor((gutter() - 18) / 6.4);
    for (const lane of lanes) {
      const size = laneHeight(lane);
      const isDevice = lane.lane < deviceCount;
      if (isDevice) {
        context.fillStyle = colour(colourOf.get(lane.lane) ?? "idle");
        context.fillRect(0, top + size / 2 - 5, 10, 10);
      }
      context.fillStyle = colour(isDevice ? "ink" : "soft");
      context.font = `${isDevice ? "600 12.5px" : `${LABEL_SIZE}px`} system-ui, sans-serif`;
      const name = laneName(lane.lane);
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, isDevice ? 15 : 0, top + size / 2 + 4);
      top += size + 4;
    }
  }

  // ---- Looking around.

  function show(from, to) {
    const least = Math.max(total / 1e6, 20);
    const width = clamp(to - from, least, total);
    view.from = clamp(from, 0, total - width);
    view.to = view.from + width;
    repaint();
  }

  function zoom(factor, around = (view.from + view.to) / 2) {
    show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  }

  const pan = (share) => show(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);

  function laneAt(py) {
    let top = axis + 2;
    for (const lane of lanes) {
      if (py >= top - 2 && py <= top + laneHeight(lane) + 2) return lane;
      top += laneHeight(lane) + 4;
    }
    return null;
  }

  /** The shortest span under the pointer, or one that is almost under it. */
  function spanAt(px, py) {
    const lane = laneAt(py);
    if (!lane || px < gutter()) return null;
    const time = timeAt(px);
    const slack = ((view.to - view.from) / (canvas.clientWidth - gutter())) * 3;
    let best = null;
    for (let i = firstVisible(lane.spans, time - slack - lane.longest); i < lane.spans.length; i += 1) {
      const span = lane.spans[i];
      if (span.start > time + slack) break;
      if (span.end < time - slack) continue;
      const outside = Math.max(span.start - time, time - span.end, 0);
      if (!best || outside < best.outside || (outside === best.outside && span.length < best.span.length)) best = { span, outside };
    }
    return best?.span ?? null;
  }

  function describe(span, event) {
    const rows = [["on", laneName(span.lane)], ["from", showTime(span.start)], ["to", showTime(span.end)], ["takes", showTime(span.length)]];
    if (span.kind === 0) {
      if (opKind(span.id)) rows.unshift(["kind", opKind(span.id)]);
      if (span.more > 1) rows.push(["inputs", String(span.more)]);
    } else if (span.kind === 3) {
      rows.unshift(["what", "the call, values at its borders, synchronisation"]);
    } else {
      rows.unshift(["bytes", showBytes(span.kind === 1 ? data.tensors.bytes[span.id] : data.params.bytes[span.id])]);
      rows.push(["to", deviceName(span.more)]);
    }
    if (span.kind === 0 && measuredTime.has(span.id)) rows.push(["measured", showTime(measuredTime.get(span.id))]);
    if (span.critical) rows.push(["critical path", "yes"]);
    showTip(event.clientX, event.clientY, spanTitle(span), rows);
  }

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const pointers = new Map();
  let pressed = null;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, place(event)[0]);
    canvas.setPointerCapture(event.pointerId);
    pressed = { at: place(event)[0], from: view.from, to: view.to, moved: false };
    if (pointers.size === 2) pressed.pinch = [...pointers.values()];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    if (pressed && pointers.has(event.pointerId)) {
      pointers.set(event.pointerId, px);
      if (pressed.pinch && pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        const before = Math.abs(pressed.pinch[0] - pressed.pinch[1]) || 1;
        const factor = before / (Math.abs(a - b) || 1);
        const middle = (pressed.from + pressed.to) / 2;
        show(middle - ((pressed.to - pressed.from) / 2) * factor, middle + ((pressed.to - pressed.from) / 2) * factor);
        return;
      }
      const moved = px - pressed.at;
      if (Math.abs(moved) > 3) pressed.moved = true;
      if (pressed.moved) {
        const time = (moved / (canvas.clientWidth - gutter())) * (pressed.to - pressed.from);
        show(pressed.from - time, pressed.to - time);
        hideTip();
      }
      return;
    }
    const span = spanAt(px, py);
    canvas.style.cursor = span ? "pointer" : "grab";
    if (span !== hovered) {
      hovered = span;
      repaint();
    }
    if (span) describe(span, event);
    else hideTip();
  });
  const release = (event) => {
    pointers.delete(event.pointerId);
    const wasClick = pressed && !pressed.moved && !pressed.pinch;
    if (pointers.size === 0) pressed = null;
    if (!wasClick || event.type === "pointercancel") return;
    const span = spanAt(...place(event));
    const op = span && (span.kind === 0 ? span.id : span.kind === 1 ? data.tensors.producer[span.id] : null);
    if (op !== null && op !== undefined) select(op);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    hideTip();
    repaint();
  });
  // The page must still scroll past: the wheel zooms once the timeline has the focus, or with Ctrl.
  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    if (sideways) pan(event.deltaX / canvas.clientWidth);
    else zoom(Math.exp(clamp(event.deltaY, -120, 120) * 0.003), timeAt(place(event)[0]));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const actions = { ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), Home: () => show(0, total) };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  on("theme", () => {
    colour = palette();
    repaint();
  });
  on("filter", repaint);
  on("select", () => {
    const span = spanOf.get(state.op);
    // Whoever chose it elsewhere wants to see it here.
    if (span && (span.end < view.from || span.start > view.to)) {
      const width = view.to - view.from;
      show((span.start + span.end - width) / 2, (span.start + span.end + width) / 2);
    }
    repaint();
  });
  new ResizeObserver(repaint).observe(canvas);

  const button = (id, text, title, action) => make("button", { type: "button", id, title, "aria-label": title, onclick: action }, text);
  const toggle = path.length
    ? make("button", { type: "button", id: "critical", "aria-pressed": "true", title: "Mark the chain that decides the finish", onclick: () => {
        emphasis = !emphasis;
        toggle.setAttribute("aria-pressed", String(emphasis));
        repaint();
      } }, "critical path")
    : null;
  const tools = [toggle, button("zoom-in", "+", "Zoom in", () => zoom(0.6)), button("zoom-out", "−", "Zoom out", () => zoom(1 / 0.6)), button("zoom-fit", "fit", "Show all", () => show(0, total))];
  const hidden = every.length - lanes.length;
  const more = hidden > 0 && make("button", { type: "button", onclick: () => {
    lanes = every;
    more.remove();
    repaint();
  } }, `Show ${plural(hidden, "more lane")}`);
  const what = isPeriod
    ? `One request that has the devices to itself takes ${showTime(data.latency)} from end to end. In a stream, the next requests follow every ${showTime(data.value)}.`
    : data.objective.name === "cold-start"
      ? "Devices, and below them the buses that bring weights from host memory."
      : "What each device runs, and below that what each link carries.";
  const overlay = measured ? " The strip at the foot of a lane is the run that was measured." : "";
  return card(
    "timeline",
    isPeriod ? "One request from end to end" : "Timeline",
    tools,
    make("p", { class: "note" }, `${what}${overlay} Drag to move; click, then scroll to zoom, or use the buttons.`),
    make("div", { style: { marginTop: "0.6rem" } }, canvas, make("div", { class: "window", "aria-hidden": "true" }, thumb)),
    more || null,
    legend(
      used.slice(0, 16).map(deviceChip),
      someCalls && swatch("call-bar", "what a piece costs besides its ops"),
      someTransfers && swatch("transfer-bar", "a tensor on its way; the stripe is the device it goes to"),
      someLoads && swatch("load-bar", "weights on their way; the stripe is the device they go to"),
      measured && swatch("measured-bar", "measured"),
      path.length > 0 && swatch("path-bar", "on the critical path; pale: not on it"),
      swatch("", "the op that is chosen", { border: "2px solid var(--focus)" }),
    ),
  );
}

/** The first position whose span starts at `time` or later. */
function firstVisible(list, time) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].start < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The end of a path-like name, which tells more than its beginning. */
function shortName(name) {
  const parts = name.split(/[/.:]/).filter(Boolean);
  return parts.length > 2 ? parts.slice(-2).join(".") : name;
}

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#101113" : "#ffffff";
}
