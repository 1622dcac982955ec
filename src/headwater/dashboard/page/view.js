// One view: how it stands, its last moments, what it is, what it has, and what each version changed.

import { h } from "./dom.js";
import { loading } from "./flow.js";
import { sourcesOf, standing } from "./model.js";
import { spacetime } from "./spacetime.js";
import { bytes, clock, count, milliseconds, plural, since } from "./words.js";

export const TABS = { now: "Now", moments: "Last moments", definition: "Definition", rows: "Rows", versions: "Versions" };
const PATHS = { moments: "recent", definition: "definition", rows: "rows", versions: "versions" };

// What has been read of views, by name and tab; renewed when a state says that there is more.
const known = new Map();

// Have what a tab shows read, if it may have changed; `done` is called when it is there.
export async function read(name, tab, view, done) {
  if (!(tab in PATHS)) return;
  const key = `${name}/${tab}`;
  const there = known.get(key);
  const mark = tab === "moments" ? Math.floor(Date.now() / 900) : tab === "definition" ? view.since ?? 0 : view.number ?? 0;
  if (there && (there.mark === mark || there.isAsked)) return;
  known.set(key, { ...there, mark, isAsked: true });
  try {
    const answer = await fetch(`/api/views/${encodeURIComponent(name)}/${PATHS[tab]}`);
    known.set(key, { mark, found: await answer.json() });
  } catch {
    known.set(key, { ...there, mark: null });
  }
  done();
}

const changed = new Map();

async function readChange(name, number, done) {
  const key = `${name}/${number}`;
  if (changed.has(key)) return;
  changed.set(key, {});
  try {
    const answer = await fetch(`/api/views/${encodeURIComponent(name)}/changes/${number}`);
    changed.set(key, await answer.json());
  } catch {
    changed.delete(key);
  }
  done();
}

export function panel(state, route, done) {
  const view = state.views[route.name];
  if (!view) return [h("h2", {}, route.name), h("p", {}, "There is no such view any more.")];
  const kind = standing(view, state.sources);
  return [
    h("div", { class: "title" },
      h("h2", {}, route.name),
      h("span", { class: `state ${kind}` }, view.state),
      h("a", { class: "close", href: "#/", "aria-label": "Close" }, "✕")),
    h("nav", { class: "tabs", "aria-label": "About this view" },
      Object.entries(TABS).map(([tab, title]) =>
        h("a", { href: `#/view/${encodeURIComponent(route.name)}/${tab}`, "aria-current": tab === route.tab ? "page" : null }, title))),
    h("div", { id: `tab-${route.tab}`, class: "tab" }, contents(state, view, route, done)),
  ];
}

function contents(state, view, route, done) {
  if (route.tab === "now") return now(state, view);
  const found = known.get(`${route.name}/${route.tab}`)?.found;
  if (!found) return h("p", { class: "quiet" }, "It is being read.");
  if (found.error) return h("p", {}, found.error);
  switch (route.tab) {
    case "moments":
      return spacetime(route.name, found, sourcesOf(view));
    case "definition":
      return definition(found);
    case "rows":
      return found.tables.map((table) => rows(table, found.tables.length > 1));
    default:
      return versions(found, route, done);
  }
}

function now(state, view) {
  const facts = [
    ["Consistency", view.level],
    ["Algorithm", view.algorithm],
    ["Version", view.number ? `${count(view.number)}${view.committed_at ? `, committed at ${clock(view.committed_at)}` : ""}` : null],
    ["Freshness", view.freshness_ms && `${milliseconds(view.freshness_ms.median)}, 99%: ${milliseconds(view.freshness_ms.p99)}`],
    ["Commits", view.commits !== undefined ? `${count(view.commits)}, ${plural(view.rows, "changed row")}` : null],
    ["Questions", view.questions !== undefined
      ? `${count(view.questions)}, ${bytes(view.answer_bytes)} of answers; ${count(view.overlaps)} compensated, ${count(view.retries)} put again`
      : null],
    ["Waits to be folded", view.tail ? plural(view.tail.rows, "row") : null],
    ["Published", view.published?.number ? `up to version ${count(view.published.number)}` : null],
  ].filter(([, value]) => value);
  return [
    view.message && h("p", { class: "why" }, view.message, " ", h("span", { class: "quiet" }, since(view.since, state.now))),
    view.note && h("p", { class: "quiet" }, view.note),
    loading(view),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    vector(state, view),
  ];
}

// How far the view has come at each source, against where that is.
function vector(state, view) {
  const reads = sourcesOf(view);
  if (reads.length === 0) return null;
  return h("table", { class: "vector" },
    h("caption", {}, "What it reflects of each source, and where that is"),
    h("thead", {}, h("tr", {}, ["source", "reflected", "read", "behind by"].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, reads.map((name) => {
      const [reached, end] = [view.vector?.[name]?.number, state.sources[name]?.end];
      const lag = view.lag?.[name];
      return h("tr", {},
        h("th", { scope: "row" }, name),
        h("td", {}, count(reached)),
        h("td", {}, count(end)),
        h("td", {},
          h("meter", { min: 0, max: Math.max(1, end ?? 1), value: reached ?? 0, "aria-hidden": "true" }),
          " ", lag === null || lag === undefined ? "unknown" : lag ? count(lag) : "nothing"));
    })));
}

function definition(found) {
  const told = found.explanation;
  return [
    found.files.map((file) => h("figure", {}, h("figcaption", { class: "quiet" }, file.name), h("pre", { tabindex: "0" }, file.text))),
    found.why_not && h("p", { class: "why" }, `How it is maintained cannot be told now: ${found.why_not}`),
    told && [
      h("p", {}, "Maintained by ", h("b", {}, told.algorithm), ": ", told.reason),
      told.lookups.length > 0 && h("h3", {}, "When a table changes"),
      h("ul", {}, told.lookups.map((each) =>
        h("li", {}, h("b", {}, each.changed), " changes: ", each.copied ? "a copy of " : "", h("b", {}, each.asked),
          each.by.length ? ` is looked up by ${each.by.join(", ")}` : " is read whole"))),
      Object.entries(told.shown).map(([name, steps]) => [
        h("h3", {}, `How ${name} is computed`),
        h("ul", { class: "plan" }, steps.map((each) => h("li", { class: `depth${Math.min(each.depth, 8)}` }, each.step))),
      ]),
      costs(told.costs),
    ],
  ];
}

function costs(lines) {
  const able = lines.filter((each) => !each.out && each.estimated);
  if (able.length === 0) return null;
  return [
    h("h3", {}, "What a transaction would cost"),
    h("div", { class: "wide", tabindex: "0" }, h("table", {},
      h("thead", {}, h("tr", {}, ["algorithm", "messages", "bytes", "time", "measured"].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, able.map((each) =>
        h("tr", { class: each.chosen ? "chosen" : null },
          h("th", { scope: "row" }, each.algorithm, each.chosen ? " ✓" : ""),
          h("td", {}, each.estimated.messages?.toFixed(1) ?? "–"),
          h("td", {}, bytes(each.estimated.bytes)),
          h("td", {}, milliseconds(each.estimated.time_ms ?? 1000 * (each.estimated.time_s ?? NaN))),
          h("td", {}, each.measured ? plural(each.measured.transactions, "transaction") : "–")))))),
  ];
}

function rows(table, isNamed) {
  return [
    isNamed && h("h3", {}, table.name),
    h("div", { class: "wide", tabindex: "0" }, h("table", { class: "rows" },
      h("caption", {}, table.columns.length ? `${plural(table.rows.length, "row")}${table.more ? " of more" : ""} of version ${count(table.version)}; what changed last comes first` : ""),
      h("thead", {}, h("tr", {}, table.columns.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, table.rows.map((row) => h("tr", {}, row.map((each) => h("td", {}, each))))))),
    table.note && h("p", { class: "quiet" }, table.note),
  ];
}

function versions(found, route, done) {
  if (route.version) readChange(route.name, route.version, done);
  return h("div", { class: "wide", tabindex: "0" }, h("table", {},
    h("caption", {}, "The newest versions; one that is chosen shows its rows"),
    h("thead", {}, h("tr", {}, ["version", "at", "what", "rows", "takes in"].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, found.versions.flatMap((each) => [
      h("tr", { class: each.number === route.version ? "chosen" : null },
        h("th", { scope: "row" }, each.kind === "change"
          ? h("a", { href: `#/view/${encodeURIComponent(route.name)}/versions/${each.number}` }, count(each.number))
          : count(each.number)),
        h("td", {}, each.at ? clock(each.at) : "–"),
        h("td", {}, each.kind),
        h("td", {}, count(each.rows)),
        h("td", {}, each.takes.map(([source, first, last]) => `${source} ${first === last ? first : `${first}–${last}`}`).join(", "))),
      each.number === route.version && h("tr", {}, h("td", { colspan: 5 }, change(changed.get(`${route.name}/${each.number}`)))),
    ]).filter(Boolean))));
}

function change(found) {
  if (!found?.rows) return h("span", { class: "quiet" }, found?.error ?? "It is being read.");
  return h("table", { class: "rows" },
    h("thead", {}, h("tr", {}, ["", ...found.columns].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, found.rows.map(([number, ...row]) =>
      h("tr", { class: number > 0 ? "came" : "went" }, h("th", { scope: "row" }, number > 0 ? `+${number}` : `−${-number}`), row.map((each) => h("td", {}, each))))),
    found.more && h("caption", {}, "and more"));
}
