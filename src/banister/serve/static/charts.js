// Drawings in SVG, in the units of the place they are put in.

import { clock, draw, number, signed } from "./format.js";

const scale = (low, high, from, to) => (v) => (high === low ? (from + to) / 2 : from + ((v - low) / (high - low)) * (to - from));

function canvas(place, height) {
  const box = place.getBoundingClientRect();
  const size = { width: Math.max(box.width, 120), height: height ?? Math.max(box.height, 40) };
  const svg = draw("svg", { viewBox: `0 0 ${size.width} ${size.height}`, role: "img" });
  place.replaceChildren(svg);
  return { svg, ...size };
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const ROOM = 0.08;  // above and below what is drawn, as a share of its extent

function extent(values, include) {
  const all = [...values.filter((v) => v != null && Number.isFinite(v)), ...include];
  const low = Math.min(...all), high = Math.max(...all), room = (high - low || Math.abs(high) || 1) * ROOM;
  return [low - room, high + room];
}

// The fleet's gain with its interval; the dashed line is the baseline.
export function gainChart(place, points) {
  const told = points.filter((p) => p.value != null);
  if (!told.length) { place.replaceChildren(); return; }
  const { svg, width, height } = canvas(place);
  const [low, high] = extent(told.flatMap((p) => [p.low, p.high]), [0]);
  const x = scale(told[0].time, told.at(-1).time, 0, width - 62), y = scale(low, high, height - 18, 6);
  svg.append(draw("line", { class: "zero", x1: 0, x2: width - 62, y1: y(0), y2: y(0) }),
    draw("text", { x: width - 56, y: y(0) + 4 }, "baseline"));
  if (told.length > 1) {
    const up = told.map((p) => [x(p.time), y(p.high)]), down = told.map((p) => [x(p.time), y(p.low)]).reverse();
    svg.append(draw("path", { class: "band", d: `${path([...up, ...down])}Z` }),
      draw("path", { class: "line", d: path(told.map((p) => [x(p.time), y(p.value)])) }));
  }
  const last = told.at(-1), at = told.length > 1 ? x(last.time) : (width - 62) / 2;
  svg.append(draw("line", { class: "whisker", x1: at, x2: at, y1: y(last.low), y2: y(last.high) }),
    draw("circle", { class: "dot", cx: at, cy: y(last.value), r: 4.5 }));
  if (Math.abs(y(last.value) - y(0)) > 14) svg.append(draw("text", { class: "strong", x: at + 9, y: y(last.value) + 4 }, signed(last.value)));
  svg.append(draw("text", { x: 0, y: height - 2 }, clock(told[0].time)),
    draw("text", { x: width - 62, y: height - 2, "text-anchor": "end" }, "now"));
}

export function shareChart(place, points) {
  if (points.length < 2) { place.replaceChildren(); return; }
  const { svg, width, height } = canvas(place);
  const x = scale(points[0].time, points.at(-1).time, 0, width), y = scale(0, 1, height - 1, 2);
  const line = points.map((p) => [x(p.time), y(p.left)]);
  svg.append(draw("path", { class: "band", d: `${path([[0, height], ...line, [width, height]])}Z` }), draw("path", { class: "line", d: path(line) }));
}

// An estimate with its interval on a common scale; the dashed line is 0.
export function interval(low, value, high, reach) {
  const x = scale(-reach, reach, 4, 126), cut = (v) => x(Math.max(-reach, Math.min(reach, v)));
  const svg = draw("svg", { class: "interval", viewBox: "0 0 130 16", "aria-hidden": "true" },
    draw("line", { class: "track", x1: 0, x2: 130, y1: 8, y2: 8 }), draw("line", { class: "zero", x1: 65, x2: 65, y1: 1, y2: 15 }));
  if (value != null) {
    svg.append(draw("line", { class: value < 0 ? "whisker neg" : "whisker", x1: cut(low), x2: cut(high), y1: 8, y2: 8 }),
      draw("circle", { class: "knob", cx: cut(value), cy: 8, r: 3.2 }));
  }
  return svg;
}

// Whether a decision's floor and bound are rewards. Under a promise for a task or the fleet the bound is what was
// saved so far; where the baseline reward is unknown it is a difference.
export const inRewards = (d) => !["task", "fleet"].includes(d.promise) && !(d.floor === 0 && d.high == null);

// A task's past, decision by decision: rewards as dots, floors as a line, refits and alarms as vertical lines.
export function pastChart(place, decisions, events) {
  const rows = decisions.map((d) => (inRewards(d) ? d : { ...d, floor: null })).reverse();
  if (!rows.length) return;
  const { svg, width } = canvas(place, 230), height = 230, right = width - 8;
  const [low, high] = extent(rows.flatMap((d) => [d.reward, d.floor]), rows.some((d) => d.reward != null || d.floor != null) ? [] : [0]);
  const x = scale(0, Math.max(rows.length - 1, 1), 46, right), y = scale(low, high, height - 24, 10);
  rows.forEach((d, i) => { d.x = x(i); });
  const middle = (low + high) / 2, edge = ((high - low) * ROOM) / (1 + 2 * ROOM), known = new Set(rows.flatMap((d) => [d.reward, d.floor]).filter((v) => v != null));
  for (const v of known.size < 2 ? [middle] : [low + edge, middle, high - edge]) {
    svg.append(draw("line", { class: "axis", x1: 46, x2: right, y1: y(v), y2: y(v) }), draw("text", { x: 40, y: y(v) + 4, "text-anchor": "end" }, number(Math.abs(v) < 1e-9 * (high - low) ? 0 : v)));
  }
  for (const e of events) {
    if (e.time < rows[0].time || e.time > rows.at(-1).time) continue;
    const at = x(rows.findIndex((d) => d.time >= e.time) - 0.5);
    const mark = draw("line", { class: e.kind, x1: at, x2: at, y1: 8, y2: height - 24 });
    mark.append(draw("title", {}, e.kind === "alarm" ? "alarm" : `model ${e.version}`));
    svg.append(mark);
  }
  const floors = rows.filter((d) => d.floor != null);
  if (floors.length > 1) svg.append(draw("path", { class: "floor", d: path(floors.map((d) => [d.x, y(d.floor)])) }));
  for (const d of rows) {
    if (d.reward == null) continue;
    const dot = draw("circle", { class: d.left ? "moved" : "kept", cx: d.x, cy: y(d.reward), r: d.left ? 4 : 3 });
    dot.append(draw("title", {}, `decision ${d.id}: ${number(d.reward)}`));
    svg.append(dot);
  }
  svg.append(draw("text", { x: 46, y: height - 6 }, clock(rows[0].time)), draw("text", { x: right, y: height - 6, "text-anchor": "end" }, clock(rows.at(-1).time)));
}

// What stands on that line: floor, bound and estimates, as far as the decision has them.
export function marksOf(d) {
  const level = inRewards(d);
  return [["floor", level ? d.floor : null, "floor"], ["bound", level ? d.bound : null, "lower bound"],
    ["usual", d.left ? d.usual?.value : null, "baseline"], ["played", d.played?.value, d.left ? "played" : "baseline"]].filter(([, v]) => v != null);
}

// From floor to bound to estimate, on one line.
export function ladder(place, d) {
  const level = inRewards(d), marks = marksOf(d), { svg, width } = canvas(place, 96);
  const [low, high] = extent(marks.map(([, v]) => v), []), x = scale(low, high, 40, width - 60);
  svg.append(draw("line", { class: "track", x1: 8, x2: width - 8, y1: 48, y2: 48 }));
  if (level && d.bound != null && d.played) svg.append(draw("line", { class: "whisker", x1: x(d.bound), x2: x(d.played.value), y1: 48, y2: 48 }));
  const placed = [-1e9, -1e9];
  for (const [kind, value, word] of marks.sort((a, b) => a[1] - b[1])) {
    const row = placed[0] <= placed[1] ? 0 : 1;
    const at = Math.max(x(value), placed[row] + 84); placed[row] = at;
    svg.append(draw("line", { class: kind === "floor" ? "floor" : "axis", x1: x(value), x2: x(value), y1: 36, y2: 60 }),
      draw("circle", { class: kind === "usual" ? "kept" : kind === "floor" ? "usual" : "dot", cx: x(value), cy: 48, r: 5 }),
      draw("text", { class: "soft", x: at, y: row ? 78 : 14, "text-anchor": "middle" }, word),
      draw("text", { class: "strong", x: at, y: row ? 92 : 28, "text-anchor": "middle" }, number(value)));
  }
}

// What each feature adds, played above baseline.
export function featureBars(place, features) {
  if (!features.length) return;
  const rowHeight = 34, { svg, width } = canvas(place, features.length * rowHeight + 4);
  const most = Math.max(...features.flatMap((f) => [Math.abs(f.played), Math.abs(f.usual)]), 1e-12);
  const left = Math.min(240, width * 0.38), x = scale(-most, most, left + 8, width - 62);
  svg.append(draw("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: features.length * rowHeight }));
  features.forEach((f, i) => {
    const top = i * rowHeight + 6, bar = (v, y, kind) => draw("rect", { class: kind, x: Math.min(x(0), x(v)), y, width: Math.max(Math.abs(x(v) - x(0)), 1), height: 9, rx: 2 });
    svg.append(draw("text", { class: "strong", x: left, y: top + 9, "text-anchor": "end" }, clipped(f.name)),
      draw("text", { x: left, y: top + 22, "text-anchor": "end" }, `value ${number(f.value)}`),
      bar(f.played, top, "played"), bar(f.usual, top + 11, "usual"),
      draw("text", { x: width - 2, y: top + 14, "text-anchor": "end" }, signed(f.played - f.usual)));
  });
}

const clipped = (text) => (text.length > 30 ? `${text.slice(0, 29)}…` : text);
