// Sources and views as a graph: what flows where, and where it does not.

import { h, s } from "./dom.js";
import { rateOf, sourcesOf, standing, sumOfLag } from "./model.js";
import { count, duration, milliseconds, rate } from "./words.js";

export function flow(state, samples, chosen) {
  const sources = Object.entries(state.sources);
  const views = Object.entries(state.views);
  const going = Object.fromEntries(
    sources.map(([name]) => [name, rateOf(samples, (each) => each.sources[name])]),
  );
  return [
    h("h2", { id: "flow-title" }, "What flows where"),
    h("div", { class: "flow" },
      s("svg", { class: "edges", "aria-hidden": "true" }),
      h("ul", { class: "column", "aria-label": "Sources" },
        sources.map(([name, source]) => sourceNode(name, source, going[name]))),
      h("ul", { class: "column", "aria-label": "Views" },
        views.map(([name, view]) => viewNode(name, view, state.sources, samples, name === chosen))),
    ),
    views.length === 0 && h("p", { class: "quiet" }, "There is no view yet: write one into views/."),
  ];
}

function sourceNode(name, source, going) {
  const kind = source.trouble ? "bad" : "good";
  return h("li", { class: `node source ${kind}`, id: `source-${name}`, "data-name": name, "data-going": going > 0 && !source.trouble },
    h("strong", {}, name),
    h("span", {}, source.trouble ? "cannot be read" : `${count(source.end)} transactions`),
    h("span", { class: "quiet" }, source.trouble ? "" : going === null ? "" : `${rate(going)} a second`),
  );
}

function viewNode(name, view, sources, samples, isChosen) {
  const kind = standing(view, sources);
  const fresh = view.freshness_ms;
  const commits = rateOf(samples, (each) => each.views[name]?.commits);
  return h("li", { class: `node view ${kind}`, id: `node-${name}`, "data-name": name, "data-reads": JSON.stringify(sourcesOf(view)), "data-kind": kind },
    h("a", { href: `#/view/${encodeURIComponent(name)}`, "aria-current": isChosen ? "true" : null },
      h("strong", {}, name),
      h("span", { class: `state ${kind}` }, view.state),
      loading(view) ?? h("span", {}, behind(view, kind)),
      h("span", { class: "quiet" },
        [view.level, view.algorithm].filter(Boolean).join(" · "),
        fresh ? ` · ${milliseconds(fresh.median)} fresh` : "",
        commits ? ` · ${rate(commits)} commits/s` : ""),
    ),
  );
}

function behind(view, kind) {
  const lag = sumOfLag(view);
  if (kind === "bad") return "stands still";
  if (lag === null) return view.number ? "shows its last state" : "nothing to be read yet";
  return lag ? `${count(lag)} behind` : "up to date";
}

// How far a load is, with the time that is left.
export function loading(view) {
  if (!view.rows_read) return null;
  const told = view.progress ?? {};
  const rows = told.rows ?? Object.values(view.rows_read).reduce((a, b) => a + b, 0);
  const left = told.left_s === null || told.left_s === undefined ? "" : `, ${duration(told.left_s)} left`;
  const words = told.of
    ? `${count(rows)} of about ${count(told.of)} rows, ${count(told.rows_per_s)} a second${left}`
    : `${count(rows)} rows read`;
  return h("span", { class: "load" },
    h("progress", { max: 100, value: told.of ? Math.min(100, (100 * rows) / told.of) : null, "aria-label": "read" }),
    words);
}

// Lines between the nodes, where they are now.
export function connect(section) {
  const picture = section.querySelector(".edges");
  if (!picture) return;
  const box = picture.getBoundingClientRect();
  const places = new Map();
  for (const node of section.querySelectorAll(".source")) {
    const at = node.getBoundingClientRect();
    places.set(node.dataset.name, { x: at.right - box.left, y: at.top + at.height / 2 - box.top, node });
  }
  const lines = [];
  for (const node of section.querySelectorAll(".view")) {
    const at = node.getBoundingClientRect();
    const [x, y] = [at.left - box.left, at.top + at.height / 2 - box.top];
    for (const name of JSON.parse(node.dataset.reads)) {
      const from = places.get(name);
      if (!from) continue;
      const middle = (from.x + x) / 2;
      const isDown = from.node.classList.contains("bad");
      const kind = isDown ? "bad" : node.dataset.kind;
      const going = from.node.hasAttribute("data-going") && kind !== "bad" ? " going" : "";
      lines.push(s("path", { class: `edge ${kind}${going}`, d: `M${from.x},${from.y} C${middle},${from.y} ${middle},${y} ${x},${y}` }));
    }
  }
  picture.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  return { picture, lines };
}
