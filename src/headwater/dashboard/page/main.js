// The page: what the server sends, put on the screen.

import { charts } from "./charts.js";
import { h, renew } from "./dom.js";
import { connect, flow } from "./flow.js";
import { sampleOf, wrong } from "./model.js";
import { TABS, panel, read } from "./view.js";
import { bytes, clock, count, plural, since } from "./words.js";

const MOST = 900;
const SILENT_MS = 5000;
const at = (id) => document.getElementById(id);

let state = null;
let samples = [];
let heardAt = 0;
let isConnected = false;

function routed() {
  const [, kind, name, tab, version] = location.hash.split("/").map(decodeURIComponent);
  if (kind !== "view" || !name) return null;
  return { name, tab: tab in TABS ? tab : "now", version: Number(version) || null };
}

function draw() {
  drawHead();
  if (!state) return;
  const route = routed();
  renew(at("wrong"), troubles());
  renew(at("flow"), flow(state, samples, route?.name));
  drawEdges();
  at("view").hidden = !route;
  renew(at("view"), route ? panel(state, route, draw) : []);
  followPicture();
  if (route && state.views[route.name]) read(route.name, route.tab, state.views[route.name], draw);
  renew(at("charts"), charts(samples));
  renew(at("sources"), sources());
  renew(at("foot"), [h("span", {}, `Headwater ${state.version}`), " ", h("a", { href: "/metrics" }, "metrics"), " ", h("a", { href: "/api/state" }, "state as JSON")]);
  document.title = `${state.troubles.length ? `(${state.troubles.length}) ` : ""}${state.title} · Headwater`;
}

function drawHead() {
  const isSilent = Date.now() - heardAt > SILENT_MS;
  const runner = state?.runner;
  const [kind, words] = !isConnected || isSilent
    ? ["bad", heardAt ? `no connection since ${clock(heardAt / 1000)}; it is tried again` : "connecting"]
    : runner ? ["good", runner.pid ? `running: process ${runner.pid} on ${runner.host}` : "running"] : ["late", "no runner is at work"];
  renew(at("head"), [
    h("h1", {}, state?.title ?? "Headwater"),
    h("span", { class: `pill ${kind}`, role: "status" }, words),
    h("button", { id: "theme", type: "button", "aria-label": "Light or dark" }, "◐"),
  ]);
}

function troubles() {
  const found = wrong(state);
  if (found.length === 0) {
    return h("p", { class: "well" }, Object.values(state.views).some((view) => view.state === "loading") ? "Nothing is wrong; something is being loaded." : "Nothing is wrong.");
  }
  return [
    h("h2", {}, plural(found.length, "thing is wrong", "things are wrong")),
    h("ul", { class: "troubles" }, found.map((each) => h("li", {},
      h("div", {}, h("strong", {}, each.view ? h("a", { href: `#/view/${encodeURIComponent(each.view)}` }, each.about) : each.about),
        " ", h("span", { class: "quiet" }, since(each.since, state.now))),
      h("p", {}, each.why),
      each.affected?.length > 0 && h("p", {}, h("b", {}, "Affected: "), `${each.affected.join(", ")}; readers keep the last state.`),
      each.remedy && h("p", {}, h("b", {}, "What to do: "), each.remedy)))),
  ];
}

function sources() {
  return [
    h("h2", { id: "sources-title" }, "Sources"),
    h("div", { class: "wide", tabindex: "0" }, h("table", {},
      h("thead", {}, h("tr", {}, ["source", "transactions", "position", "kept in the change log", "kept at the source"].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, Object.entries(state.sources).map(([name, source]) => h("tr", {},
        h("th", { scope: "row" }, name),
        h("td", {}, count(source.end)),
        h("td", {}, source.position_text || "–"),
        h("td", {}, source.kept === undefined ? "–" : `${count(source.kept)}, ${bytes(source.bytes)}`),
        h("td", {}, retained(source.retained))))))),
  ];
}

function retained(kept) {
  if (!kept) return "unknown";
  const told = [kept.rows !== null && plural(kept.rows, "row"), kept.bytes !== null && bytes(kept.bytes)];
  const left = kept.left_bytes !== null && `lost after ${bytes(kept.left_bytes)} more`;
  return [...told, left].filter(Boolean).join(", ") || "unknown";
}

function drawEdges() {
  const found = connect(at("flow"));
  if (found) renew(found.picture, found.lines);
}

// Keep the newest moment in sight, unless somebody has scrolled to another.
function followPicture() {
  const picture = document.querySelector(".spacetime .scroll");
  if (!picture) return;
  const isAtEnd = picture.dataset.end === undefined || picture.scrollLeft >= Number(picture.dataset.end) - 40;
  if (isAtEnd) picture.scrollLeft = picture.scrollWidth;
  picture.dataset.end = picture.scrollWidth - picture.clientWidth;
}

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("history", (event) => {
    samples = JSON.parse(event.data);
  });
  events.addEventListener("state", (event) => {
    state = JSON.parse(event.data);
    heardAt = Date.now();
    isConnected = true;
    if (samples.at(-1)?.at !== state.now) samples = [...samples, sampleOf(state)].slice(-MOST);
    draw();
  });
  events.addEventListener("error", () => {
    isConnected = false;
    drawHead();
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 1000);
  });
}

function theme(wanted) {
  if (wanted) document.documentElement.dataset.theme = wanted;
}

theme(localStorage.getItem("theme"));
document.addEventListener("click", (event) => {
  if (event.target.id !== "theme") return;
  const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  const wanted = isDark ? "light" : "dark";
  localStorage.setItem("theme", wanted);
  theme(wanted);
});
addEventListener("hashchange", draw);
addEventListener("resize", drawEdges);
setInterval(drawHead, 1000);
draw();
listen();
