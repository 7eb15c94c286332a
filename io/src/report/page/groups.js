// The network as a tree: every group is a stretch of a topological order, so groups depend on each other one way only.

/** A group shows at most about so many parts. */
const MOST_PARTS = 26;
/** Up to here every op is shown at once. */
const FEW_OPS = 70;

/** A name in parts: `layers.0.attention.query` is layers.0, attention, query. */
function nameParts(name, separators) {
  const parts = [];
  for (const part of name.split(separators).filter(Boolean)) {
    if (/^\d+$/.test(part) && parts.length) parts[parts.length - 1] += `.${part}`;
    else parts.push(part);
  }
  return parts;
}

/** Names that say where an op belongs: by the source's modules where it has any, else by the parts of the names. */
function namePaths() {
  const plain = order.filter((op) => !/[/.:]/.test(opName(op))).length;
  const separators = plain > opCount / 2 ? /[/.:_-]/ : /[/.:]/;
  const paths = data.ops.name.map((name, op) => {
    const parts = nameParts(name, separators);
    const module = data.ops.module?.[op];
    return module === undefined || module === null ? parts : [`module ${module}`, ...parts];
  });
  // Names that turn up here and there, such as relu_1, relu_2, say what an op is, not where: it belongs to what it reads.
  const scattered = scatteredNames(paths);
  const isPlain = paths.filter((parts) => parts.length === 1).length > opCount / 2;
  for (const op of order) {
    if (!scattered.has(paths[op][0]) && (isPlain || paths[op].length > 1)) continue;
    const makers = inputsOf[op].map((tensor) => data.tensors.producer[tensor]).filter((maker) => maker !== null);
    if (makers.length) paths[op] = [paths[makers[makers.length - 1]][0], ...paths[op]];
  }
  return paths;
}

/** First parts of names whose ops do not stand together. */
function scatteredNames(paths) {
  const stretches = new Map();
  const ops = new Map();
  order.forEach((op, i) => {
    const name = paths[op][0];
    ops.set(name, (ops.get(name) ?? 0) + 1);
    if (i === 0 || paths[order[i - 1]][0] !== name) stretches.set(name, (stretches.get(name) ?? 0) + 1);
  });
  return new Set([...ops.keys()].filter((name) => stretches.get(name) > 3 && stretches.get(name) > ops.get(name) / 2));
}

/** A topological order that stays on a device as long as it can. */
function orderByDevice() {
  const waiting = new Int32Array(opCount);
  for (let op = 0; op < opCount; op += 1) {
    waiting[op] = inputsOf[op].filter((tensor) => data.tensors.producer[tensor] !== null).length;
  }
  const rank = new Int32Array(opCount);
  order.forEach((op, i) => (rank[op] = i));
  const ready = new Map();
  const push = (op) => {
    const device = opDevice(op);
    if (!ready.has(device)) ready.set(device, []);
    ready.get(device).push(op);
  };
  order.filter((op) => waiting[op] === 0).forEach(push);
  const sorted = [];
  let device = null;
  while (sorted.length < opCount) {
    if (!ready.get(device)?.length) {
      const open = [...ready.entries()].filter(([, list]) => list.length);
      device = open.reduce((best, one) => (Math.min(...one[1].map((op) => rank[op])) < Math.min(...best[1].map((op) => rank[op])) ? one : best))[0];
    }
    const list = ready.get(device);
    let at = 0;
    for (let i = 1; i < list.length; i += 1) if (rank[list[i]] < rank[list[at]]) at = i;
    const [op] = list.splice(at, 1);
    sorted.push(op);
    for (const tensor of outputsOf[op]) {
      for (const reader of data.tensors.consumers[tensor]) {
        waiting[reader] -= 1;
        if (waiting[reader] === 0) push(reader);
      }
    }
  }
  return sorted;
}

/** Builds the tree; `mode` is `name` or `device`. */
function buildTree(mode) {
  const sequence = mode === "device" ? orderByDevice() : order;
  const paths = namePaths();
  let count = 0;
  const node = (label, from, to, parent) => ({ id: (count += 1), label, from, to, parent, children: [], size: to - from });

  /** Stretches of [from, to) with the same key. */
  const runs = (from, to, key) => {
    const list = [];
    for (let i = from; i < to; i += 1) {
      const own = key(sequence[i]);
      if (list.length && list[list.length - 1].key === own) list[list.length - 1].to = i + 1;
      else list.push({ key: own, from: i, to: i + 1 });
    }
    return list;
  };

  function byName(parent, depth) {
    if (parent.size === 1) return;
    let list = [];
    let deepest = 0;
    for (let i = parent.from; i < parent.to; i += 1) deepest = Math.max(deepest, paths[sequence[i]].length);
    for (; depth < deepest; depth += 1) {
      list = runs(parent.from, parent.to, (op) => paths[op][depth] ?? `\n${op}`);
      if (list.length > 1) break;
    }
    if (list.length < 2) list = runs(parent.from, parent.to, (op) => op);
    const parts = list.map((run) => ({ ...run, label: run.to - run.from === 1 ? opName(sequence[run.from]) : paths[sequence[run.from]].slice(0, depth + 1).join(".") }));
    gather(parent, parts, (child) => byName(child, depth + 1));
  }

  function byDevice(parent) {
    const list = runs(parent.from, parent.to, opDevice);
    const label = (run) => (run.to - run.from === 1 ? opName(sequence[run.from]) : `${deviceName(run.key)}: ${shortName(opName(sequence[run.from]))} …`);
    gather(parent, list.map((run) => ({ ...run, label: label(run) })), (child) => byName(child, 0));
  }

  /** Makes parts the children of a group; too many are put together first. */
  function gather(parent, parts, descend) {
    if (parts.length <= MOST_PARTS || parent.size <= MOST_PARTS) {
      for (const part of parts) {
        const child = node(part.label, part.from, part.to, parent);
        parent.children.push(child);
        if (child.size > 1) descend(child);
      }
      return;
    }
    const bundles = Math.min(MOST_PARTS, Math.ceil(parts.length / 8));
    for (let i = 0; i < bundles; i += 1) {
      const mine = parts.slice(Math.floor((i * parts.length) / bundles), Math.floor(((i + 1) * parts.length) / bundles));
      const [first, last] = [mine[0], mine[mine.length - 1]];
      const child = node(fromTo(shortName(first.label), shortName(last.label)), first.from, last.to, parent);
      parent.children.push(child);
      if (mine.length > 1) gather(child, mine, descend);
      else if (child.size > 1) descend(child);
    }
  }

  const root = node(data.name, 0, opCount, null);
  if (opCount > 1) (mode === "device" ? byDevice : (all) => byName(all, 0))(root);
  const position = new Int32Array(opCount);
  sequence.forEach((op, i) => (position[op] = i));
  return { root, sequence, position };
}

/** Two names as the ends of a range; of names that differ in a number at their end the second is that number: `module 0 … 8`. */
function fromTo(first, last) {
  if (first === last) return `${first} …`;
  const [stem, otherStem] = [first, last].map((name) => name.replace(/\d+$/, ""));
  return `${first} … ${stem && stem === otherStem ? last.slice(stem.length) : last}`;
}

/** Groups to open at first: level by level, then those that are far larger than the rest, while few parts are shown. */
function openAtFirst(tree, most = opCount <= FEW_OPS ? opCount : 44) {
  const open = new Set();
  let shown = [tree.root];
  const unfold = (chosen) => {
    chosen.forEach((one) => open.add(one));
    shown = shown.flatMap((one) => (open.has(one) ? one.children : [one]));
  };
  const grown = (chosen) => shown.length + chosen.reduce((sum, one) => sum + one.children.length - 1, 0);
  for (;;) {
    const groups = shown.filter((one) => one.children.length);
    const large = groups.filter((one) => one.size > (4 * opCount) / shown.length && grown([one]) <= most);
    if (groups.length && grown(groups) <= most) unfold(groups);
    else if (large.length) unfold([large.reduce((a, b) => (b.size > a.size ? b : a))]);
    else return open;
  }
}

/** What is shown: groups that are not open, and ops, in the order of the network. */
function shownParts(tree, open) {
  const parts = [];
  const walk = (one) => (one.children.length && open.has(one) ? one.children.forEach(walk) : parts.push(one));
  walk(tree.root);
  return parts;
}
