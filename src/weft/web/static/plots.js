// The histogram and the scatter: a span of time is chosen with the mouse or with the keyboard, points with the mouse.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function plot() {
  const figure = document.querySelector(".hist");
  const bars = figure?.querySelector(".plot"), points = figure?.querySelector(".scatter");
  if (bars?.querySelector(".period") && !bars.dataset.ready) histogram(figure, bars);
  if (points && !points.dataset.ready) scatter(points);
}

// -- the histogram: whole periods are chosen

function histogram(figure, plot) {
  plot.dataset.ready = "";
  const number = () => plot.querySelectorAll(".period").length;
  const period = x => Math.max(0, Math.min(number() - 1, Math.floor((x - plot.getBoundingClientRect().left) / plot.clientWidth * number())));
  let from = null, to = null, isDragged = false;
  const time = index => Math.min(+figure.dataset.begin + index * figure.dataset.width, +figure.dataset.end);
  const span = () => [time(Math.min(from, to)), time(Math.max(from, to) + 1)];
  const hour = at => new Date(at * 1000).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
  function draw() {
    const chosen = plot.querySelector(".chosen"), told = figure.querySelector("output");
    chosen.setAttribute("x", from === null ? 0 : 10 * Math.min(from, to));
    chosen.setAttribute("width", from === null ? 0 : 10 * (Math.abs(to - from) + 1));
    told.value = from === null ? "" : `${hour(span()[0])} to ${hour(span()[1])}; enter shows these runs`;
  }
  function take() {
    if (from === null) return;
    const [since, until] = span().map(at => at.toFixed(3));
    from = to = null;
    draw();
    show(address({ since, until, span: null, after: null, from: null }));
  }
  plot.addEventListener("pointerdown", event => {
    if (event.button || event.pointerType === "touch") return; // a finger scrolls
    from = to = period(event.clientX);
    isDragged = false;
    const moved = event => { if (period(event.clientX) !== to) { to = period(event.clientX); isDragged = true; draw(); } };
    const ended = () => { removeEventListener("pointermove", moved); removeEventListener("pointerup", ended); if (isDragged) take(); else { from = to = null; draw(); } };
    addEventListener("pointermove", moved);
    addEventListener("pointerup", ended);
  });
  plot.addEventListener("dragstart", event => event.preventDefault());
  plot.addEventListener("click", event => { if (isDragged) { event.preventDefault(); event.stopPropagation(); isDragged = false; } }, true);
  plot.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      to = from === null ? number() - 1 : Math.max(0, Math.min(number() - 1, to + step));
      if (from === null || !event.shiftKey) from = to;
    } else if (event.key === "Home" || event.key === "End") {
      to = event.key === "Home" ? 0 : number() - 1;
      if (from === null || !event.shiftKey) from = to;
    } else if (event.key === "Escape") from = to = null;
    else if (event.key === "Enter") { event.preventDefault(); take(); return; } else return;
    event.preventDefault();
    event.stopPropagation();
    draw();
  });
}

// -- the scatter: the runs in a box are selected

function scatter(svg) {
  svg.dataset.ready = "";
  let isDragged = false;
  svg.addEventListener("pointerdown", event => {
    if (event.button || event.pointerType === "touch" || !document.querySelector("#many")) return;
    const area = svg.getBoundingClientRect(), x = event.clientX, y = event.clientY;
    const box = document.createElementNS(SVG, "rect");
    box.setAttribute("class", "chosen");
    isDragged = false;
    const moved = event => {
      if (!isDragged && Math.hypot(event.clientX - x, event.clientY - y) < 4) return;
      isDragged = true;
      svg.append(box);
      for (const [name, value] of Object.entries({ x: Math.min(x, event.clientX) - area.left, y: Math.min(y, event.clientY) - area.top, width: Math.abs(event.clientX - x), height: Math.abs(event.clientY - y) })) box.setAttribute(name, value);
    };
    const ended = event => {
      removeEventListener("pointermove", moved);
      removeEventListener("pointerup", ended);
      box.remove();
      if (!isDragged) return;
      if (!event.shiftKey) picked.clear();
      const [left, right] = [x, event.clientX].sort((a, b) => a - b), [top, bottom] = [y, event.clientY].sort((a, b) => a - b);
      for (const point of svg.querySelectorAll("[data-point]")) {
        const place = point.getBoundingClientRect(), across = place.left + place.width / 2, down = place.top + place.height / 2;
        if (across >= left && across <= right && down >= top && down <= bottom) picked.add(point.dataset.point);
      }
      pick();
    };
    addEventListener("pointermove", moved);
    addEventListener("pointerup", ended);
  });
  svg.addEventListener("dragstart", event => event.preventDefault());
  svg.addEventListener("click", event => { if (isDragged) { event.preventDefault(); event.stopPropagation(); isDragged = false; } }, true);
}
