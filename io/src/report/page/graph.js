// The network, coloured by device: layers from top to bottom, groups that open on a click.

/** As wide as most names and kinds need. */
const NODE_WIDTH = (() => {
  const needs = Array.from({ length: opCount }, (_, op) => Math.max(34 + 6.4 * shortName(opName(op)).length, 82 + 5.6 * opKind(op).length));
  needs.sort((a, b) => a - b);
  return clamp(needs[Math.floor(opCount * 0.85)], opCount > FEW_OPS ? 150 : 100, 172);
})();
const NODE_HEIGHT = 40;
const LAYER_GAP = 34;
const SIDE_GAP = 16;
const BEND_GAP = 5;
/** Beyond this, edges that pass layers are drawn straight. */
const MOST_BENDS = 6000;
/** Where nearly everything is joined with everything, edges are faint, and straight. */
const isDense = ({ nodes, edges }) => edges.length > 40 + 3 * nodes.length;

/** What is shown as a graph: parts, edges between them with bytes, and which device each part is on. */
function quotient(tree, parts) {
  const partAt = new Int32Array(opCount);
  parts.forEach((part, i) => partAt.fill(i, part.from, part.to));
  const partOf = (op) => partAt[tree.position[op]];
  const edges = new Map();
  data.tensors.consumers.forEach((consumers, tensor) => {
    const producer = data.tensors.producer[tensor];
    if (producer === null) return;
    const from = partOf(producer);
    const targets = new Set();
    for (const op of consumers) {
      const to = partOf(op);
      if (to === from) continue;
      const key = from * parts.length + to;
      if (!edges.has(key)) edges.set(key, { from, to, bytes: 0, crosses: false });
      const edge = edges.get(key);
      if (!targets.has(to)) edge.bytes += data.tensors.bytes[tensor];
      targets.add(to);
      if (opDevice(op) !== opDevice(producer)) edge.crosses = true;
    }
  });
  const nodes = parts.map((part) => {
    const time = new Map();
    let [critical, ops] = [false, 0];
    for (let i = part.from; i < part.to; i += 1) {
      const op = tree.sequence[i];
      const shares = sharesOf.get(op) ?? [[opDevice(op), 1]];
      const whole = shares.reduce((sum, [, size]) => sum + size, 0);
      for (const [device, size] of shares) {
        time.set(device, (time.get(device) ?? 0) + (Math.max(plannedTime[op], 1) * size) / whole);
      }
      critical ||= isCritical[op] === 1;
      ops += 1;
    }
    const devices = [...time].sort((a, b) => b[1] - a[1]);
    const sum = devices.reduce((total, [, one]) => total + one, 0);
    return { part, devices, time: sum, critical, ops, op: part.size === 1 ? tree.sequence[part.from] : null };
  });
  return { nodes, edges: [...edges.values()], partOf };
}

/** Layers by the longest way from the inputs, then fewer crossings, then places close to the neighbours. */
function layOut({ nodes, edges }) {
  const layerOf = new Int32Array(nodes.length);
  const incoming = nodes.map(() => []);
  edges.forEach((edge) => incoming[edge.to].push(edge.from));
  // Parts are in topological order.
  nodes.forEach((_, i) => incoming[i].forEach((from) => (layerOf[i] = Math.max(layerOf[i], layerOf[from] + 1))));
  const layers = [];
  const places = nodes.map((_, i) => ({ node: i, width: NODE_WIDTH, up: [], down: [] }));
  places.forEach((place, i) => (layers[layerOf[i]] ??= []).push(place));
  const bends = edges.reduce((sum, edge) => sum + layerOf[edge.to] - layerOf[edge.from] - 1, 0);
  const winds = bends <= MOST_BENDS && !isDense({ nodes, edges });
  for (const edge of edges) {
    let before = places[edge.from];
    edge.places = [before];
    const through = winds ? layerOf[edge.to] - 1 : layerOf[edge.from];
    for (let layer = layerOf[edge.from] + 1; layer <= through; layer += 1) {
      const bend = { node: null, width: 6, up: [], down: [] };
      layers[layer].push(bend);
      join(before, bend);
      edge.places.push(bend);
      before = bend;
    }
    join(before, places[edge.to]);
    edge.places.push(places[edge.to]);
  }
  function join(a, b) {
    a.down.push(b);
    b.up.push(a);
  }
  const number = (layer) => layer.forEach((place, i) => (place.at = i));
  layers.forEach(number);
  const mean = (list, key) => list.reduce((sum, one) => sum + one[key], 0) / list.length;
  for (let round = 0; round < 8; round += 1) {
    const [side, sweep] = round % 2 === 0 ? ["up", layers] : ["down", [...layers].reverse()];
    for (const layer of sweep) {
      layer.forEach((place) => (place.wish = place[side].length ? mean(place[side], "at") : place.at));
      layer.sort((a, b) => a.wish - b.wish);
      number(layer);
    }
  }
  const distance = (a, b) => (a.width + b.width) / 2 + (a.node === null || b.node === null ? BEND_GAP : SIDE_GAP);
  layers.forEach((layer) => {
    layer.forEach((place, i) => (place.x = i ? layer[i - 1].x + distance(layer[i - 1], place) : 0));
    const middle = layer[layer.length - 1].x / 2;
    layer.forEach((place) => (place.x -= middle));
  });
  for (let round = 0; round < 10; round += 1) {
    const [side, sweep] = round % 2 === 0 ? ["up", layers] : ["down", [...layers].reverse()];
    for (const layer of sweep) settle(layer, side);
  }
  // Wishes of both sides, so that nothing leans.
  layers.forEach((layer) => settle(layer, "both"));
  layers.forEach((layer, i) => layer.forEach((place) => (place.y = i * (NODE_HEIGHT + LAYER_GAP))));

  /** Moves a layer towards its neighbours, keeping order and distance. */
  function settle(layer, side) {
    const wishes = layer.map((place) => {
      const near = side === "both" ? [...place.up, ...place.down] : place[side];
      return near.length ? mean(near, "x") : place.x;
    });
    const apart = (i) => distance(layer[i - 1], layer[i]);
    const [left, right] = [[], []];
    wishes.forEach((wish, i) => (left[i] = i ? Math.max(wish, left[i - 1] + apart(i)) : wish));
    for (let i = wishes.length - 1; i >= 0; i -= 1) right[i] = i + 1 < wishes.length ? Math.min(wishes[i], right[i + 1] - apart(i + 1)) : wishes[i];
    layer.forEach((place, i) => (place.x = (left[i] + right[i]) / 2));
    for (let i = 1; i < layer.length; i += 1) layer[i].x = Math.max(layer[i].x, layer[i - 1].x + apart(i));
  }
  return places;
}

/** A smooth line through the places of an edge. */
function edgeLine(edge) {
  const [first, ...rest] = edge.places;
  let [x, y] = [first.x, first.y + NODE_HEIGHT];
  let line = `M${x.toFixed(1)},${y}`;
  rest.forEach((place, i) => {
    const isLast = i === rest.length - 1;
    const middle = (y + place.y) / 2;
    line += `C${x.toFixed(1)},${middle} ${place.x.toFixed(1)},${middle} ${place.x.toFixed(1)},${place.y}`;
    if (!isLast) line += `V${place.y + NODE_HEIGHT}`;
    [x, y] = [place.x, place.y + (isLast ? 0 : NODE_HEIGHT)];
  });
  return line;
}

function graphCard() {
  const trees = {};
  let mode = "name";
  const tree = () => (trees[mode] ??= withOpen(buildTree(mode)));
  const withOpen = (built) => ({ ...built, open: openAtFirst(built) });
  const picture = draw("g");
  const svg = draw("svg", { role: "group", "aria-label": "The network, coloured by device" }, picture);
  const frame = make("div", { class: "graph", id: "graph-frame" }, svg);
  const status = make("span", { class: "soft" });
  const view = { x: 0, y: 0, scale: 1 };
  let shown = null;

  const apply = () => picture.setAttribute("transform", `translate(${view.x.toFixed(1)},${view.y.toFixed(1)}) scale(${view.scale.toFixed(4)})`);

  function nodeBox(index) {
    const { places, graph } = shown;
    const { part, devices, time, critical, ops, op } = graph.nodes[index];
    const { x, y } = places[index];
    const left = x - NODE_WIDTH / 2;
    const main = devices[0][0];
    const label = op === null ? part.label : opName(op);
    const under = op === null ? `${plural(ops, "op")} · ${showTime(Math.round(time))}` : `${opKind(op) ? `${opKind(op)} · ` : ""}${showTime(plannedTime[op])}`;
    let at = left;
    const stripes = devices.length < 2 ? [] : devices.map(([device, own]) => {
      const width = (own / time) * NODE_WIDTH;
      at += width;
      return draw("rect", { x: at - width, y: y + NODE_HEIGHT - 5, width, height: 5, style: { fill: deviceColour(device) } });
    });
    const action = () => (op === null ? unfold(part) : select(op));
    const node = draw(
      "g",
      {
        class: `node ${op === null ? "group" : "op"}${critical ? " critical" : ""}`, tabindex: 0, role: "button", "data-part": index,
        "aria-label": `${label}: ${under}, on ${devices.map(([device]) => deviceName(device)).join(", ")}`,
        onclick: () => dragged || action(),
        onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") action();
          else if (event.key === "Backspace" && part.parent?.parent !== undefined) fold(part);
          else return;
          event.preventDefault();
        },
        onpointermove: (event) => describe(index, event),
        onpointerleave: () => {
          hideTip();
          nearEdges(null);
        },
      },
      draw("rect", { class: "box", x: left, y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 7, style: { fill: `color-mix(in srgb, ${deviceColour(main)} ${devices.length > 1 ? 20 : 34}%, var(--card))` } }),
      draw("rect", { x: left, y: y + 6, width: 4, height: NODE_HEIGHT - 12, style: { fill: deviceColour(main) } }),
      ...stripes,
      draw("text", { x: left + 11, y: y + 17 }, fit(op === null ? `▸ ${label}` : shortName(label), Math.floor((NODE_WIDTH - 18) / 6.7))),
      draw("text", { class: "under", x: left + 11, y: y + 31 }, fit(under, Math.floor((NODE_WIDTH - 16) / 5.7))),
    );
    return node;
  }

  const fit = (text, room) => (text.length > room ? `${text.slice(0, room - 1)}…` : text);

  function describe(index, event) {
    const { devices, time, ops, op, part, critical } = shown.graph.nodes[index];
    const rows = devices.map(([device, own]) => [deviceName(device), op === null ? `${showTime(Math.round(own))} · ${showShare(own / time)}` : showTime(plannedTime[op])]);
    if (op === null) rows.unshift(["ops", showCount(ops)]);
    if (op !== null && opKind(op)) rows.unshift(["kind", opKind(op)]);
    if (critical) rows.push(["critical path", "yes"]);
    rows.push(op === null ? ["click", "opens the group"] : ["click", "why it is here"]);
    showTip(event.clientX, event.clientY, op === null ? part.label : opName(op), rows);
    nearEdges(index);
  }

  function nearEdges(index) {
    shown.graph.edges.forEach((edge, i) => shown.lines[i].classList.toggle("near", index !== null && (edge.from === index || edge.to === index)));
  }

  function rebuild() {
    const current = tree();
    const parts = shownParts(current, current.open);
    const graph = quotient(current, parts);
    const places = layOut(graph);
    const most = largest(graph.edges, (edge) => edge.bytes, 1);
    const lines = graph.edges.map((edge) => {
      const line = draw("path", { class: `edge${edge.crosses ? " cross" : ""}`, d: edgeLine(edge), "stroke-width": (1 + 2.2 * Math.sqrt(edge.bytes / most)).toFixed(2) });
      line.append(draw("title", {}, `${showBytes(edge.bytes)}${edge.crosses ? ", to another device" : ""}`));
      return line;
    });
    shown = { graph, places, lines, boxes: [] };
    shown.boxes = graph.nodes.map((_, i) => nodeBox(i));
    picture.replaceChildren(...lines, ...shown.boxes);
    svg.classList.toggle("dense", isDense(graph));
    const groups = graph.nodes.filter((node) => node.op === null).length;
    const single = parts.length - groups;
    const both = [single ? plural(single, "op") : "", groups ? plural(groups, "group") : ""].filter(Boolean).join(" and ");
    const dense = isDense(graph) ? " Most of them are joined with most others, so edges lie on top of each other." : "";
    status.textContent = (groups ? `Shown: ${both}.` : `All ${plural(opCount, "op")} are shown.`) + dense;
    frame.dataset.parts = parts.length;
    mark();
  }

  /** Shows what is chosen and what the filter leaves. */
  function mark() {
    if (shown === null) return;
    const chosen = state.op === null ? -1 : shown.graph.partOf(state.op);
    const matching = state.matches && new Set([...state.matches].map((op) => shown.graph.partOf(op)));
    shown.boxes.forEach((box, i) => {
      box.classList.toggle("selected", i === chosen);
      box.classList.toggle("dim", matching !== null && !matching.has(i));
    });
    shown.lines.forEach((line, i) => {
      const { from, to } = shown.graph.edges[i];
      line.classList.toggle("dim", matching !== null && !(matching.has(from) && matching.has(to)));
    });
  }

  function bounds() {
    const { places } = shown;
    const far = (key) => largest(places, key, -Infinity);
    const [left, right] = [-far((place) => -place.x), far((place) => place.x)];
    return { left: left - NODE_WIDTH / 2, right: right + NODE_WIDTH / 2, top: 0, bottom: far((place) => place.y) + NODE_HEIGHT };
  }

  /** All of its width where that is still readable, from the top. */
  function fitView(whole = false) {
    const box = bounds();
    frame.style.height = "";
    const [width, height] = [frame.clientWidth || 800, frame.clientHeight || 500];
    const across = (width - 24) / (box.right - box.left);
    const down = (height - 24) / (box.bottom - box.top);
    const least = width < 500 ? 0.55 : 0.4;
    view.scale = whole ? Math.min(across, down, 1.2) : clamp(Math.max(Math.min(across, down), Math.min(across, 0.8)), least, 1.1);
    view.x = width / 2 - ((box.left + box.right) / 2) * view.scale;
    view.y = 12 - box.top * view.scale;
    // A shallow network leaves no empty field below it.
    frame.style.height = `${Math.min(height, Math.max(220, (box.bottom - box.top) * view.scale + 24))}px`;
    apply();
  }

  function centreOn(index) {
    const { x, y } = shown.places[index];
    view.x = frame.clientWidth / 2 - x * view.scale;
    view.y = frame.clientHeight / 2 - (y + NODE_HEIGHT / 2) * view.scale;
    apply();
  }

  /** Rebuilds and keeps a part where it was on the screen. */
  function rebuildAround(op, change) {
    const before = shown.places[shown.graph.partOf(op)];
    const [x, y] = [before.x * view.scale + view.x, before.y * view.scale + view.y];
    change();
    rebuild();
    const after = shown.places[shown.graph.partOf(op)];
    view.x = x - after.x * view.scale;
    view.y = y - after.y * view.scale;
    apply();
  }

  function unfold(part) {
    hideTip();
    rebuildAround(tree().sequence[part.from], () => tree().open.add(part));
    svg.querySelector(`[data-part="${shown.graph.partOf(tree().sequence[part.from])}"]`)?.focus({ preventScroll: true });
  }

  function fold(part) {
    rebuildAround(tree().sequence[part.from], () => {
      const shut = (one) => {
        tree().open.delete(one);
        one.children.forEach(shut);
      };
      shut(part.parent);
    });
  }

  /** Opens groups down to an op, and looks there. */
  function reveal(op) {
    const current = tree();
    let one = current.root;
    while (one.children.length) {
      current.open.add(one);
      one = one.children.find((child) => current.position[op] >= child.from && current.position[op] < child.to);
    }
    rebuild();
    frame.style.height = "";
    view.scale = Math.max(view.scale, 0.7);
    centreOn(shown.graph.partOf(op));
    frame.scrollIntoView({ block: "nearest" });
  }

  function zoom(factor, x = frame.clientWidth / 2, y = frame.clientHeight / 2) {
    const scale = clamp(view.scale * factor, 0.05, 3);
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    apply();
  }

  // ---- Pointer: drag moves, the wheel zooms once the graph has the focus or with Ctrl, two fingers zoom.
  const pointers = new Map();
  let dragged = false;
  let focused = false;
  // A finger must be able to scroll past: the network takes all gestures once it was tapped.
  const hold = (held) => {
    focused = held;
    svg.style.touchAction = held ? "none" : "pan-y";
  };
  svg.addEventListener("click", () => hold(true));
  svg.addEventListener("pointerdown", (event) => {
    dragged = false;
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  window.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const all = [...pointers.values()];
    const spread = () => Math.hypot(all[0][0] - all[1][0], all[0][1] - all[1][1]);
    const old = all.length === 2 ? spread() : 0;
    const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    dragged = true;
    svg.classList.add("dragging");
    before[0] = event.clientX;
    before[1] = event.clientY;
    if (all.length === 2) {
      zoom(spread() / Math.max(old, 1));
      return;
    }
    view.x += dx;
    view.y += dy;
    apply();
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    svg.classList.remove("dragging");
    // The click that ends a drag comes after this.
    setTimeout(() => (dragged = false), 0);
  };
  window.addEventListener("pointerup", release);
  window.addEventListener("pointercancel", release);
  document.addEventListener("pointerdown", (event) => {
    if (!frame.contains(event.target)) hold(false);
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !focused) return;
    event.preventDefault();
    const box = frame.getBoundingClientRect();
    zoom(Math.exp(-clamp(event.deltaY, -120, 120) * 0.003), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  const choose = make("select", { id: "group-by", "aria-label": "Group ops by", onchange: () => {
    mode = choose.value;
    rebuild();
    fitView();
  } }, make("option", { value: "name" }, "group by name"), make("option", { value: "device" }, "group by device"));
  const button = (id, text, title, action) => make("button", { type: "button", id, title, "aria-label": title, onclick: action }, text);
  const detail = (more) => {
    const now = shown.graph.nodes.length;
    let most = more ? now * 2 : Math.max(1, Math.ceil(now / 2));
    // Where one level of groups holds far more parts than the one above, it takes a larger step.
    do {
      tree().open = openAtFirst(tree(), most);
      most *= 2;
    } while (more && now < opCount && shownParts(tree(), tree().open).length <= now);
    rebuild();
    fitView();
  };
  const tools = [
    choose, button("more-detail", "more detail", "Open more groups", () => detail(true)), button("less-detail", "less", "Close groups", () => detail(false)),
    button("graph-in", "+", "Zoom in", () => zoom(1.3)), button("graph-out", "−", "Zoom out", () => zoom(1 / 1.3)), button("graph-fit", "fit", "Show all", () => fitView(true)),
  ];
  on("select", mark);
  on("filter", mark);
  const keys = legend(used.slice(0, 16).map(deviceChip),
    path.length > 0 && swatch("", "critical path", { border: "2px solid var(--critical)" }),
    make("span", { class: "key" }, draw("svg", { width: 26, height: 8, style: { marginRight: "0.4em" } }, draw("path", { d: "M0,4H26", stroke: "var(--transfer)", "stroke-width": 2.5, "stroke-dasharray": "5 3" })), "to another device"));
  const made = card("graph", "The network", tools,
    make("p", { class: "note" }, "Click a group to open it, an op to see why it is where it is; Backspace closes the group around what has the focus. ", status),
    make("div", { style: { marginTop: "0.6rem" } }, frame), keys);
  return { card: made, reveal, start: () => {
    rebuild();
    fitView();
  } };
}
