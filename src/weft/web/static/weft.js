// The theme, the keyboard, one selection for the graph and the rest of the page, and what is live.
// Reading works without it.
"use strict";
const root = document.documentElement;
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// -- theme

const themes = { system: "◐", light: "○", dark: "●" };
function theme(name) {
  if (name === "system") delete root.dataset.theme; else root.dataset.theme = name;
  const button = one("#theme");
  button.textContent = themes[name];
  button.ariaLabel = button.title = `Theme: ${name === "system" ? "as the system" : name}`;
  try { localStorage.setItem("weft-theme", name); } catch { /* it is not remembered */ }
}
function remembered() {
  try { return localStorage.getItem("weft-theme") in themes ? localStorage.getItem("weft-theme") : "system"; } catch { return "system"; }
}
theme(remembered());
one("#theme").addEventListener("click", () => {
  const names = Object.keys(themes);
  theme(names[(names.indexOf(root.dataset.theme || "system") + 1) % names.length]);
});

// -- the graph: a box is a link to its component; what it came from and what it caused is marked

function mark() {
  const chosen = one(".graph .box.sel");
  const edges = all(".graph path[data-edge]").map(path => [path.dataset.from, path.dataset.to, path]);
  edges.forEach(([, , path]) => path.classList.remove("up", "down"));
  if (!chosen) return;
  for (const [from, to, name] of [[0, 1, "up"], [1, 0, "down"]]) {
    const seen = new Set([chosen.dataset.name]);
    for (const todo = [...seen]; todo.length;) {
      const at = todo.pop();
      for (const edge of edges) if (edge[to] === at) {
        edge[2].classList.add(name);
        if (!seen.has(edge[from])) { seen.add(edge[from]); todo.push(edge[from]); }
      }
    }
  }
}
function address(changes) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name); else url.searchParams.set(name, value);
  }
  return url;
}
async function show(url, { push = true } = {}) {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok) { location.href = url; return; }
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  const place = one(".graph .inside")?.scrollTop ?? 0;
  const focused = document.activeElement?.closest?.("[data-name]")?.dataset.name;
  one("#main").replaceWith(document.adoptNode(one("#main", read)));
  document.title = read.title;
  if (push) history.pushState(null, "", url);
  ready();
  if (one(".graph .inside")) one(".graph .inside").scrollTop = place;
  if (focused) one(`.graph [data-name="${CSS.escape(focused)}"], .fall [data-name="${CSS.escape(focused)}"] a`)?.focus({ preventScroll: true });
}
const choose = name => show(address({ select: name }));
addEventListener("popstate", () => show(location.href, { push: false }));

document.addEventListener("click", event => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const box = event.target.closest("[data-select] .box[data-kind]");
  if (box && box.dataset.kind !== "input") { choose(box.dataset.name); return; }
  const link = event.target.closest("main a[href^='?']");
  if (link && !link.search.includes("format=")) { event.preventDefault(); show(new URL(link.getAttribute("href"), location)); }
  for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// -- live

let stream = null;
function follow() {
  const live = one("#main").dataset.live ?? null;
  if (stream && stream.url.endsWith(live ?? "\0")) return;
  stream?.close();
  stream = null;
  if (!live) return;
  const mine = stream = new EventSource(live);
  let newest = null, waiting = null;
  const again = (after = 150) => {
    if (waiting || one("#main").dataset.seen === newest) return;
    waiting = setTimeout(() => {
      waiting = null;
      if (stream !== mine) return;
      if (one("details.menu[open], .answer :focus, .many :focus")) again(1000); // someone is typing
      else show(location.href, { push: false });
    }, after);
  };
  mine.addEventListener("state", event => { newest = event.data; again(); });
  mine.addEventListener("finished", () => mine.close());
}

// -- runs that are selected, by id: what is live does not lose them

const picked = new Set();
function pick() {
  const form = one("#many");
  if (!form) { picked.clear(); return; }
  const boxes = all("input[name=run][form=many]");
  for (const box of boxes) box.checked = picked.has(box.value);
  const there = boxes.filter(box => box.checked).length;
  const every = one("[data-all]");
  every.checked = there > 0 && there === boxes.length;
  every.indeterminate = there > 0 && there < boxes.length;
  form.hidden = there === 0;
  one("output", form).value = there;
}
document.addEventListener("change", event => {
  const box = event.target;
  if (!box.matches("input[name=run][form=many], [data-all]")) return;
  for (const each of box.matches("[data-all]") ? all("input[name=run][form=many]") : [box]) {
    if (box.checked) picked.add(each.value); else picked.delete(each.value);
  }
  pick();
});

// -- the slider

function slider() {
  const range = one(".when input[type=range]");
  if (!range) return;
  range.addEventListener("input", () => { one(".when output").value = `event ${range.value} of ${range.max}`; });
  range.addEventListener("change", () => show(address({ at: range.value === range.max ? null : range.value })));
}

// -- the keyboard

let before = "";
function move(by) {
  const rows = all("[data-row]");
  const steps = all(".fall li");
  if (steps.length) {
    const now = steps.findIndex(step => step.classList.contains("sel"));
    const next = steps[Math.max(0, Math.min(steps.length - 1, now + by))];
    if (next) choose(next.dataset.name);
    return;
  }
  const now = rows.findIndex(row => row.classList.contains("current"));
  rows[now]?.classList.remove("current");
  const next = rows[Math.max(0, Math.min(rows.length - 1, now + by))];
  next?.classList.add("current");
  next?.scrollIntoView({ block: "nearest" });
}
const base = one(".logo").getAttribute("href").replace(/\/runs$/, "");
const keys = {
  j: () => move(1),
  k: () => move(-1),
  Enter: () => one(".current a")?.click(),
  x: () => one(".current input[name=run]")?.click(),
  "/": () => one("[type=search]").focus(),
  "[": () => one("[data-step='-1']")?.click(),
  "]": () => one("[data-step='1']")?.click(),
  "?": () => one("#help").showModal(),
};
const places = { r: "/runs", p: "/problems", w: "/workflows", s: "/schedules", f: "/workers", l: "/limits", v: "/versions" };
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const box = event.target.closest?.(".graph .box[tabindex]");
  if (box && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); choose(box.dataset.name); return; }
  if (event.target.closest?.("input:not([type=range], [type=checkbox]), textarea, select, dialog")) return;
  if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
  if (before === "g" && places[event.key]) { location.href = base + places[event.key]; return; }
  before = event.key;
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

one("header [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
function ready() { mark(); follow(); slider(); pick(); }
ready();
