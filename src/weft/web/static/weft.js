// The theme, the keyboard, one selection for the graph and the rest of the page, and what is live.
// Reading works without it.
"use strict";
const root = document.documentElement;
root.classList.add("js");
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
  const shared = all(".graph path[data-trunk], .graph g[data-join] > path:first-child");
  for (const path of [...edges.map(([, , path]) => path), ...shared]) path.classList.remove("up", "down");
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
  for (const path of shared) { // what several lines share is marked as they are
    const { trunk, from } = path.dataset, to = trunk?.split("\n") ?? [path.parentNode.dataset.join];
    for (const name of ["up", "down"]) if (edges.some(([source, target, line]) => to.includes(target) && (trunk === undefined ? line.dataset.edge === "join" : source === from) && line.classList.contains(name))) path.classList.add(name);
  }
}
function address(changes) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name); else url.searchParams.set(name, value);
  }
  return url;
}
let shows = 0;
async function show(url, { push = true } = {}) {
  const turn = ++shows;
  let answer;
  try { answer = await fetch(url, { headers: { accept: "text/html" } }); } catch { if (push) location.href = url; return; }
  if (!answer.ok) { location.href = url; return; }
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (turn !== shows) return; // a later address was asked for meanwhile
  for (const each of all("noscript", read)) each.remove(); // what a parser without scripts has made of it would be done
  const before = new Set(all("tr[data-id]").map(row => row.dataset.id));
  const kept = anchor(), main = one("#main"), at = kept?.getBoundingClientRect().top;
  isLive = !push;
  morph(main, one("#main", read));
  document.title = read.title;
  if (push) history.pushState(null, "", url);
  else if (before.size) for (const row of all("tr[data-id]")) row.classList.toggle("new", !before.has(row.dataset.id));
  ready();
  if (!push && kept?.isConnected) scrollBy({ top: kept.getBoundingClientRect().top - at, behavior: "instant" });
}

// What a person reads stays where it is: the row under the mouse or the cursor, or else the first one in sight.
function anchor() {
  const row = one("tr[data-id]:hover, tr[data-id].current, tr[data-id]:focus-within");
  if (row || scrollY < 100) return row;
  return all("tr[data-id]").find(each => each.getBoundingClientRect().top >= 0) ?? null;
}

// Makes one tree like another and leaves what is alike: the focus, the selection, what was typed; if it is the same page
// a moment later, also what is folded.
let isLive = false;
const keyOf = node => node.nodeType === 1 ? node.dataset.id ?? node.dataset.name ?? (node.id || null) : null;
const isAlike = (one, other) => one.nodeName === other.nodeName && (one.nodeType !== 1 || keyOf(one) === keyOf(other) && one.classList[0] === other.classList[0]);
function morph(old, young) {
  for (const { name } of [...old.attributes]) if (!young.hasAttribute(name) && !(name === "open" && (isLive || old.matches("dialog"))) && name !== "data-ready") old.removeAttribute(name);
  for (const { name, value } of young.attributes) if (!(name === "open" && isLive) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.matches("input[type=range]") && old !== document.activeElement) old.value = young.value;
  if (old.matches("textarea, output")) { if (old.matches("output")) old.value = young.value; return; }
  const keyed = new Map([...old.childNodes].filter(keyOf).map(node => [keyOf(node), node]));
  let place = old.firstChild;
  for (const child of [...young.childNodes]) {
    const key = keyOf(child);
    let match = key === null ? place : keyed.get(key);
    while (key === null && match && !isAlike(match, child)) match = match.nextSibling;
    if (match && (!isAlike(match, child) || keyOf(match) !== key)) match = null;
    if (!match) { old.insertBefore(document.importNode(child, true), place); continue; }
    if (match !== place) old.insertBefore(match, place); else place = place.nextSibling;
    if (child.nodeType === 1) morph(match, child); else if (match.data !== child.data) match.data = child.data;
  }
  while (place) { const next = place.nextSibling; place.remove(); place = next; }
}
// On a phone the inspector is a sheet from below: a touch of its head opens and closes it, a choice opens it.
let isUp = /[?&](select|tab|element)=/.test(location.search);
function sheet() { one(".inspector")?.classList.toggle("up", isUp); }
const choose = name => show(address({ select: name, element: null, tab: null, start: null, search: null, state: null }));
addEventListener("popstate", () => show(location.href, { push: false }));

document.addEventListener("click", event => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const box = event.target.closest("[data-select] .box[data-kind]");
  if (box && box.dataset.kind !== "input") { isUp = true; choose(box.dataset.name); return; }
  if (event.target.closest(".inspector > header") && !event.target.closest("a, button")) { isUp = !isUp; sheet(); return; }
  if (event.target.closest(".fall a, .say a[href*='#inspector'], .say a[href*='select=']")) isUp = true;
  const more = event.target.closest("a[data-part]");
  if (more) { event.preventDefault(); part(more); return; }
  const copied = event.target.closest("[data-copy]");
  if (copied) { event.preventDefault(); copy(copied); return; }
  const clip = event.target.closest("[data-clip]");
  if (clip) { take(clip); return; }
  const link = event.target.closest("main a");
  const target = link?.getAttribute("href") ?? "";
  if (target.startsWith("?") && !target.includes("format=")) { event.preventDefault(); show(new URL(target, location)); }
  for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// -- values: more parts of a large one are fetched when they are asked for, and one is copied as JSON

async function part(link) {
  const answer = await fetch(link.href, { headers: { accept: "text/html" } });
  if (!answer.ok) { location.href = link.href; return; }
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  const place = link.closest("li") ?? link;
  place.replaceWith(...all("#part > ul > li, #part:not(:has(> ul)) > *", read).map(each => document.importNode(each, true)));
}
async function copy(button) {
  const answer = await fetch(button.href, { headers: { accept: "application/json" } });
  if (!answer.ok) { location.href = button.href; return; }
  try { await navigator.clipboard.writeText(await answer.text()); button.textContent = "Copied"; } catch { location.href = button.href; }
}

// A command is copied; where the browser does not let a page write there, it is selected.
async function take(button) {
  const text = button.previousElementSibling;
  try { await navigator.clipboard.writeText(button.dataset.clip); button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 2000); }
  catch { getSelection().selectAllChildren(text); }
}

// -- lists that are chosen from

document.addEventListener("change", event => {
  const list = event.target.closest("select[data-go]");
  if (!list) return;
  const changes = { [list.name]: list.value || null, after: null, from: null };
  if (list.name === "span" && list.value) changes.since = changes.until = null;
  show(address(changes));
});

// -- live

let stream = null, later = 0;
function follow() {
  const live = one("#main").dataset.live ?? null;
  clearTimeout(later);
  if (one("#main").dataset.again) later = setTimeout(() => show(location.href, { push: false }), +one("#main").dataset.again);
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
  mine.addEventListener("error", () => { // a server that has too many streams, or is gone: ask again later
    if (mine.readyState === EventSource.CLOSED && stream === mine) { stream = null; setTimeout(follow, 10_000); }
  });
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
  const here = new Set(boxes.map(box => box.value));
  for (const each of all("input[data-elsewhere]", form)) each.remove();
  for (const id of picked) if (!here.has(id)) { // of another page, or of the scatter
    const field = Object.assign(document.createElement("input"), { type: "hidden", name: "run", value: id });
    field.dataset.elsewhere = "";
    form.append(field);
  }
  for (const point of all("[data-point]")) point.classList.toggle("picked", picked.has(point.dataset.point));
  form.hidden = picked.size === 0;
  one("output", form).value = picked.size;
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
  if (!range || range.dataset.ready) return;
  range.dataset.ready = "";
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
  if (event.target.closest?.("input:not([type=range], [type=checkbox]), textarea, select, dialog, .plot")) return;
  if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
  if (before === "g" && places[event.key]) { location.href = base + places[event.key]; return; }
  before = event.key;
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

one("header [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
function clocks() {
  for (const each of all(".ticks time")) {
    const at = new Date(each.dateTime), far = Date.now() - at > 72e6;
    each.textContent = at.toLocaleString([], { hour: "2-digit", minute: "2-digit", hour12: false, ...(far ? { day: "2-digit", month: "short" } : {}) });
  }
}
// The latest runs of the grid stand at its right end.
for (const each of all(".scroll")) each.scrollLeft = each.scrollWidth;
function ready() { sheet(); mark(); follow(); slider(); pick(); clocks(); plot(); }
ready();
