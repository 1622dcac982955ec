// The last moments of a view as the papers draw them: a lane for each source and one for the view,
// time rightwards; transactions come down, questions go up and answers come back, commits stand in
// the view's lane. Distances are not to scale: what counts is what came before what.

import { h, s } from "./dom.js";
import { clock, count, milliseconds, plural } from "./words.js";

const [LANE, STEP, LEFT, TOP, NAMES] = [64, 30, 12, 30, 100];
const SHOWN = 36;

export function spacetime(name, steps, sources) {
  const shown = steps.slice(-SHOWN);
  if (shown.length === 0) {
    return h("p", { class: "quiet" },
      "Nothing has happened to this view since its runner began, or no runner tells: 'headwater run --serve' does.");
  }
  const lanes = [...new Set([...sources, ...shown.map((each) => each.source).filter(Boolean)])];
  const moments = momentsOf(shown);
  const x = new Map(moments.map((moment, at) => [moment.key, LEFT + (at + 0.5) * STEP]));
  const y = (source) => TOP + lanes.indexOf(source) * LANE;
  const below = TOP + lanes.length * LANE;
  const width = LEFT + moments.length * STEP + 24;
  const asked = new Map(shown.map((step, at) => [step.kind === "question" ? step.label : null, at]));
  const answered = new Set(shown.filter((step) => step.kind === "answer").map((step) => step.label));
  const place = { x: (at, part = "at") => x.get(`${at}:${part}`), y, below, asked, answered };
  return h("div", { class: "spacetime" },
    h("div", { class: "lanes" },
    s("svg", { class: "names", width: NAMES, height: below + 44, "aria-hidden": "true" },
      [...lanes.map((each) => [each, y(each)]), [name, below]].map(([label, at]) =>
        s("text", { class: "lane-name", x: 0, y: at + 4 }, short(label)))),
    h("div", { class: "scroll", tabindex: "0" },
      s("svg", { width, height: below + 44, viewBox: `0 0 ${width} ${below + 44}`, role: "img", "aria-label": `The last ${shown.length} steps of ${name}; in words below` },
        arrowHeads(),
        [...lanes.map(y), below].map((at) => s("path", { class: "lane", d: `M0,${at} H${width}` })),
        moments.filter((each) => each.tick).map((each) =>
          s("text", { class: "tick", x: x.get(each.key), y: below + 40 }, clock(each.time))),
        shown.map((step, at) => drawn(step, at, place))))),
    h("ul", { class: "legend" },
      h("li", {}, h("i", { class: "swatch transaction" }), "transaction"),
      h("li", {}, h("i", { class: "swatch question" }), "question and answer"),
      h("li", {}, h("i", { class: "swatch compensated" }), "answer that is compensated for"),
      h("li", {}, h("i", { class: "swatch commit" }), "commit of the view")),
    h("details", {},
      h("summary", {}, "In words"),
      h("ol", { class: "steps" }, shown.toReversed().map((step) => h("li", {}, h("time", {}, clock(step.at)), " ", inWords(step))))),
  );
}

// Every end of every step, in the order in which they came about.
function momentsOf(steps) {
  const found = [];
  steps.forEach((step, at) => {
    found.push({ key: `${at}:at`, time: step.at, order: at });
    if (step.kind === "transaction" && step.began) found.push({ key: `${at}:began`, time: Math.min(step.began, step.at), order: at - 0.5 });
    if (step.kind === "answer") {
      found.push({ key: `${at}:middle`, time: (step.began + step.at) / 2, order: at - 0.4 });
    }
  });
  found.sort((a, b) => a.time - b.time || a.order - b.order);
  let last = -Infinity;
  found.forEach((each, at) => {
    if (at - last >= 4) {
      each.tick = true;
      last = at;
    }
  });
  return found;
}

function drawn(step, at, place) {
  const x = place.x(at);
  const title = s("title", {}, `${clock(step.at)} ${inWords(step)}`);
  switch (step.kind) {
    case "transaction": {
      const from = place.x(at, "began") ?? x;
      return s("g", { class: "transaction" }, title,
        s("circle", { cx: from, cy: place.y(step.source), r: 5 }),
        s("text", { x: from, y: place.y(step.source) - 10 }, `T${step.number}`),
        s("path", { d: `M${from},${place.y(step.source) + 6} L${x},${place.below - 6}`, "marker-end": "url(#down)" }));
    }
    case "question": {
      const waits = !place.answered.has(step.label);
      return s("g", { class: waits ? "question waits" : "question" }, title,
        waits && s("path", { d: `M${x},${place.below} L${x + STEP / 2},${place.y(step.source) + 4}` }),
        s("circle", { cx: x, cy: place.below, r: 3.5 }));
    }
    case "answer": {
      const middle = place.x(at, "middle");
      const kind = step.since ? "answer compensated" : "answer";
      const from = place.asked.has(step.label) ? place.x(place.asked.get(step.label)) : middle;
      return s("g", { class: kind }, title,
        s("path", { d: `M${from},${place.below} L${middle},${place.y(step.source)} L${x},${place.below}` }),
        s("circle", { cx: middle, cy: place.y(step.source), r: 3 }),
        s("circle", { cx: x, cy: place.below, r: step.since ? 8 : 3.5 }));
    }
    case "commit":
      return s("g", { class: "commit" }, title,
        s("path", { d: `M${x},${place.below - 9} l9,9 l-9,9 l-9,-9 z` }),
        s("text", { x, y: place.below + 24 }, `v${step.number}`));
    default:
      return s("g", { class: "copy" }, title, s("rect", { x: x - 4, y: place.below - 4, width: 8, height: 8 }));
  }
}

function arrowHeads() {
  return s("defs", {}, s("marker", { id: "down", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" },
    s("path", { d: "M0,0 L8,4 L0,8 z" })));
}

export function inWords(step) {
  switch (step.kind) {
    case "transaction":
      return `transaction ${count(step.number)} of ${step.source}: ${plural(step.rows, "changed row")}`;
    case "question":
      return `asks ${step.source} (${step.label})`;
    case "answer": {
      const told = `${step.source} answers ${step.label}: ${plural(step.rows, "row")}, after ${milliseconds(1000 * (step.at - step.began))}`;
      return step.since ? `${told}; it reflects ${plural(step.since, "transaction")} that came after the question, for which the algorithm compensates` : told;
    }
    case "commit": {
      const takes = step.takes.map(([source, first, last]) => `${source} ${first === last ? first : `${first} to ${last}`}`);
      return `version ${count(step.number)}: ${plural(step.rows, "changed row")}, takes in ${takes.join(", ") || "what was ready"}`;
    }
    default:
      return "a copy answers in the place of a source";
  }
}

function short(text) {
  return text.length > 13 ? `${text.slice(0, 12)}…` : text;
}
