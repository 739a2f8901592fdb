// Drawing of an agent's parts: layers from the start to the end, with the parts lit that run now.

import { element } from "./render.js";

const [HEIGHT, GAP, LAYER, LETTER, BEND] = [30, 24, 62, 7.4, 6]; // sizes in pixels of the drawing

export class Diagram {
  #place;
  #parts = []; // [{id, kind, shape, count}]
  #newest; // the newest request for a drawing

  constructor(place) {
    this.#place = place;
  }

  /** Draw the parts of the wire's agent. Return true if they are drawn. */
  async draw(wire) {
    const own = (this.#newest = Symbol());
    const drawing = await wire.own("drawing", {}).catch((error) => ({ failure: error.message }));
    if (own !== this.#newest) return false; // another agent has been chosen meanwhile
    this.#parts = [];
    const none = () => element("p", { class: "empty" }, drawing?.failure ?? "An AgentExecutor has no parts that could be drawn.");
    this.#place.replaceChildren(drawing?.parts ? this.#svg(drawing) : none());
    this.#place.scrollLeft = (this.#place.scrollWidth - this.#place.clientWidth) / 2;
    return this.#parts.length > 0;
  }

  /** Light the parts that run by these steps of a turn, and show how often each has run. */
  light(steps) {
    for (const { id, kind, shape, count } of this.#parts) {
      const own = steps.filter((step) => step.kind === kind && (id === step.part || id.endsWith(`/${step.part}`)));
      shape.classList.toggle("running", own.some(({ ms }) => ms == null));
      shape.classList.toggle("ran", own.length > 0);
      shape.classList.toggle("bad", Boolean(own.at(-1)?.error));
      count.textContent = own.length > 1 ? `×${own.length}` : "";
    }
  }

  #svg({ parts, edges }) {
    const layers = layersOf(parts, edges);
    const widths = new Map(parts.map((part) => [part.id, Math.max(48, title(part).length * LETTER + 22)]));
    const room = (layer) => layer.reduce((sum, id) => sum + widths.get(id) + GAP, GAP);
    const loops = edges.filter(({ source, target }) => layerOf(layers, target) <= layerOf(layers, source)).length;
    const width = Math.max(...layers.map(room)) + 18 * loops;
    const at = new Map();
    layers.forEach((layer, depth) => {
      let x = (width - 18 * loops - room(layer)) / 2 + GAP;
      for (const id of layer) {
        at.set(id, { x: x + widths.get(id) / 2, y: depth * LAYER + HEIGHT / 2 + 4, half: widths.get(id) / 2 });
        x += widths.get(id) + GAP;
      }
    });
    const named = new Map(parts.map((part) => [part.id, title(part)]));
    const text = `Parts: ${parts.map(title).join(", ")}. Edges: ${edges.map(({ source, target }) => `${named.get(source)} to ${named.get(target)}`).join(", ")}.`;
    const height = layers.length * LAYER - LAYER + HEIGHT + 8;
    const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": text });
    const head = svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
    head.append(svg("path", { d: "M0 0 8 4 0 8z" }));
    made.append(head);
    let loop = 0;
    for (const { source, target, label, conditional } of edges) {
      const [from, to] = [at.get(source), at.get(target)];
      if (!from || !to) continue;
      const isBack = to.y <= from.y;
      const side = width - 18 * (loops - loop) + 8;
      if (isBack) loop += 1;
      const path = isBack
        ? `M${from.x + from.half} ${from.y + BEND} C${side} ${from.y + BEND} ${side} ${to.y - BEND} ${to.x + to.half + 2} ${to.y - BEND}`
        : `M${from.x} ${from.y + HEIGHT / 2} C${from.x} ${from.y + LAYER / 2} ${to.x} ${to.y - LAYER / 2} ${to.x} ${to.y - HEIGHT / 2 - 2}`;
      made.append(svg("path", { d: path, class: conditional ? "edge conditional" : "edge", "marker-end": "url(#head)" }));
      if (label) made.append(word(label, (from.x + to.x) / 2 + 6, (from.y + to.y) / 2 + 4, "route"));
    }
    for (const part of parts) {
      const { id, kind } = part;
      const { x, y, half } = at.get(id);
      const shape = svg("g", { class: `part ${kind}` });
      const count = word("", x + half - 2, y - HEIGHT / 2 + 2, "count");
      shape.append(svg("rect", { x: x - half, y: y - HEIGHT / 2, width: 2 * half, height: HEIGHT, rx: kind === "tool" ? 4 : HEIGHT / 2 }), word(title(part), x, y + 4.5, "name"), count);
      made.append(shape);
      this.#parts.push({ id, kind, shape, count });
    }
    return made;
  }
}

/** Return the parts' ids by their distance from the start, each layer in the order of the parts before it. */
function layersOf(parts, edges) {
  const next = new Map(parts.map(({ id }) => [id, edges.filter(({ source }) => source === id).map(({ target }) => target)]));
  const depth = new Map();
  const walk = (id, path) => {
    const deepest = path.length;
    if (path.includes(id) || !next.has(id) || depth.get(id) >= deepest || deepest > parts.length) return;
    depth.set(id, deepest);
    next.get(id).forEach((each) => walk(each, [...path, id]));
  };
  const isReached = new Set(edges.filter(({ source, target }) => source !== target).map(({ target }) => target));
  for (const { id } of parts) if (!isReached.has(id)) walk(id, []);
  for (const { id } of parts) if (!depth.has(id)) walk(id, []);
  const layers = [];
  for (const { id } of parts) (layers[depth.get(id)] ??= []).push(id);
  layers.forEach((layer, place) => {
    const before = layers[place - 1];
    if (!before) return;
    const centre = (id) => {
      const from = edges.filter(({ source, target }) => target === id && before.includes(source)).map(({ source }) => (before.indexOf(source) + 0.5) / before.length);
      return from.length ? from.reduce((sum, each) => sum + each, 0) / from.length : 0.5;
    };
    // A part with an edge back goes to the right, where these edges run.
    const isBack = (id) => Number(next.get(id).some((each) => depth.get(each) <= place));
    layer.sort((a, b) => isBack(a) - isBack(b) || centre(a) - centre(b));
  });
  return layers;
}

const layerOf = (layers, id) => layers.findIndex((layer) => layer.includes(id));
/** Return the name of a part, with that of the subgraph around it. */
const title = ({ id, name, kind }) => ({ __start__: "start", __end__: "end" })[name] ?? (kind === "node" ? id.replaceAll(":", " › ") : name);

function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function word(text, x, y, kind) {
  const made = svg("text", { x, y, class: kind });
  made.textContent = text;
  return made;
}
