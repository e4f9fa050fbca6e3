// The page: asks for the transforms every second and shows the chosen one.

import { h, say } from "./dom.js";
import { count, duration, short } from "./format.js";
import { Transform } from "./transform.js";

const EVERY_MS = 1000;

// With more transforms than this one may be looked for by its name.
const MOST_UNSORTED = 12;
const byId = (id) => document.getElementById(id);
const connection = byId("connection"), list = byId("transforms"), main = byId("main");
const state = { chosen: null, shown: null, paused: false, failures: 0, tags: new Map(), skew: 0, items: new Map() };

/** Ask for JSON; null if nothing has changed since. */
async function ask(path, key) {
  const tag = state.tags.get(key);
  const answer = await fetch(path, { cache: "no-store", headers: tag === undefined ? {} : { "If-None-Match": tag } });
  if (answer.status === 304) return null;
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const facts = await answer.json();
  state.tags.set(key, answer.headers.get("etag"));
  state.skew = facts.now_s - Date.now() / 1000;
  return facts;
}

async function look() {
  const found = await ask("/api/transforms", "list");
  if (found !== null) showList(found.transforms);
  if (state.chosen === null) return;
  const view = state.shown, id = state.chosen;
  const facts = await ask(`/api/transform?id=${encodeURIComponent(id)}&after=${view.lastEpoch}`, `one ${id}`);
  if (view !== state.shown) return;
  if (facts !== null && !view.update(facts)) state.tags.delete(`one ${id}`);
  view.passing(Date.now() / 1000 + state.skew);
}

async function run() {
  if (!state.paused && !document.hidden) {
    try {
      await look();
      state.failures = 0;
      say(connection, "Live");
      connection.className = "live";
    } catch (error) {
      state.failures += 1;
      say(connection, state.failures > 1 ? "The monitor does not answer; what is shown may be old" : "Live");
      connection.className = state.failures > 1 ? "lost" : "live";
      console.warn(String(error));
    }
  }
  setTimeout(run, EVERY_MS);
}

const STATUS = { waiting: "not begun", running: "running", ended: "ended", elsewhere: "on another machine" };

function showList(transforms) {
  if (transforms.length === 0) main.replaceChildren(h("p", { class: "empty" }, "No transform has begun yet. This page shows each as soon as it does."));
  const ids = transforms.map((each) => each.id);
  for (const [id, item] of state.items) if (!ids.includes(id)) { item.element.remove(); state.items.delete(id); }
  for (const each of transforms) {
    let item = state.items.get(each.id);
    if (item === undefined) {
      const note = h("span", { class: "note" }), dot = h("span", { class: "dot", "aria-hidden": "true" }), status = h("span", { class: "visually-hidden" });
      const button = h("button", { type: "button", on: { click: () => choose(each.id, true) } }, dot, h("span", { class: "name" }, each.id), status, note);
      item = { element: h("li", {}, button), button, note, dot, status };
      state.items.set(each.id, item);
      list.append(item.element);
    }
    item.dot.className = `dot ${each.problem ? "broken" : each.status}`;
    say(item.status, ` ${each.problem ? "has a problem" : STATUS[each.status]} `);
    say(item.note, each.epoch === undefined ? STATUS[each.status] : `${short(each.rate)} rows/s · lag ${each.lag_us === null ? "–" : duration(each.lag_us / 1e6)}`);
    item.button.title = each.checkpoint;
  }
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (state.chosen === null && ids.length > 0) choose(ids.includes(wanted) ? wanted : ids[0], false);
  list.parentElement.hidden = transforms.length < 2;
  byId("find").hidden = transforms.length <= MOST_UNSORTED;
  find();
  document.title = transforms.some((each) => each.problem) ? "! Tidegate" : `Tidegate – ${count(transforms.length)} transform${transforms.length === 1 ? "" : "s"}`;
}

/** Show the transforms whose names have the text that is looked for. */
function find() {
  const text = byId("find").value.toLowerCase();
  for (const [id, item] of state.items) item.element.hidden = !id.toLowerCase().includes(text);
}
byId("find").addEventListener("input", find);

function choose(id, byUser) {
  state.chosen = id;
  state.tags.delete(`one ${id}`);
  state.shown = new Transform(id);
  state.shown.span = Number(byId("span").value);
  main.replaceChildren(state.shown.element);
  for (const [each, item] of state.items) item.button.setAttribute("aria-current", each === id ? "true" : "false");
  if (byUser) {
    history.replaceState(null, "", `#${encodeURIComponent(id)}`);
    main.focus({ preventScroll: true });
  }
}

byId("span").addEventListener("change", (event) => {
  if (state.shown !== null) { state.shown.span = Number(event.target.value); state.shown.draw(); }
});

byId("pause").addEventListener("click", (event) => {
  state.paused = !state.paused;
  event.target.setAttribute("aria-pressed", String(state.paused));
  if (state.paused) { say(connection, "Paused"); connection.className = ""; }
});

const THEMES = ["system", "light", "dark"];
function theme(name) {
  byId("theme").textContent = `Theme: ${name}`;
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* storage may be forbidden */ }
}
byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
let stored = null;
try { stored = localStorage.getItem("theme"); } catch { /* likewise */ }
theme(THEMES.includes(stored) ? stored : "system");

run();
