// Lines over time. Each picture has its numbers in words too.

import { h, s } from "./dom.js";
import { rates } from "./model.js";
import { clock, count, milliseconds, rate } from "./words.js";

const MOST = 8;
const [WIDTH, HEIGHT] = [600, 120];

export function charts(samples) {
  if (samples.length < 2) return [h("h2", { id: "charts-title" }, "Over time"), h("p", { class: "quiet" }, "The first moments are being gathered.")];
  const last = samples.at(-1);
  const views = Object.keys(last.views);
  const sources = Object.keys(last.sources);
  const of = (name, member) => samples.map((each) => [each.at, each.views[name]?.[member] ?? null]);
  return [
    h("h2", { id: "charts-title" }, "Over time"),
    h("div", { class: "charts" },
      chart("Transactions a second", "by source", sources.map((name) => [name, rates(samples, (each) => each.sources[name])]), rate),
      chart("Behind", "transactions, by view", views.map((name) => [name, of(name, "lag")]), count),
      chart("Freshness", "from source to view, median", views.map((name) => [name, of(name, "fresh")]), milliseconds),
      chart("Commits a second", "by view", views.map((name) => [name, rates(samples, (each) => each.views[name]?.commits)]), rate),
    ),
  ];
}

function chart(title, about, lines, words) {
  const known = lines
    .map(([name, points]) => [name, points, latest(points)])
    .sort((a, b) => (b[2] ?? -1) - (a[2] ?? -1))
    .slice(0, MOST)
    .sort((a, b) => (a[0] < b[0] ? -1 : 1));
  const all = known.flatMap(([, points]) => points.map(([, value]) => value)).filter((value) => value !== null);
  const most = Math.max(...all, 0) || 1;
  const [from, to] = [lines[0]?.[1][0]?.[0] ?? 0, lines[0]?.[1].at(-1)?.[0] ?? 1];
  const summary = known.map(([name, , value]) => `${name} ${value === null ? "unknown" : words(value)}`).join(", ");
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("strong", {}, title), " ", h("span", { class: "quiet" }, about)),
    h("div", { class: "plot" },
      h("span", { class: "most quiet" }, words(most)),
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}, now: ${summary || "nothing known"}` },
        s("path", { class: "grid", d: `M0,${HEIGHT / 2} H${WIDTH} M0,1 H${WIDTH} M0,${HEIGHT - 1} H${WIDTH}` }),
        known.map(([, points], at) => s("path", { class: `line of${at}`, d: path(points, from, to, most) }))),
      h("span", { class: "times quiet" }, h("span", {}, clock(from)), h("span", {}, clock(to)))),
    h("ul", { class: "legend" },
      known.map(([name, , value], at) =>
        h("li", {}, h("i", { class: `swatch of${at}` }), name, " ", h("b", {}, value === null ? "–" : words(value)))),
      lines.length > MOST && h("li", { class: "quiet" }, `and ${lines.length - MOST} more`)),
  );
}

function latest(points) {
  return points.at(-1)?.[1] ?? null;
}

function path(points, from, to, most) {
  let drawn = "";
  let isDown = false;
  for (const [at, value] of points) {
    if (value === null) {
      isDown = false;
      continue;
    }
    const x = to > from ? ((at - from) / (to - from)) * WIDTH : 0;
    const y = HEIGHT - 2 - (value / most) * (HEIGHT - 6);
    drawn += `${isDown ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
    isDown = true;
  }
  return drawn || "M0,0";
}
