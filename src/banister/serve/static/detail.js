// One task's past, and one decision from its features to its bound.

import { get } from "./calls.js";
import { featureBars, inRewards, ladder, marksOf, pastChart } from "./charts.js";
import { DASH, clock, count, make, number, percent, signed, within } from "./format.js";

const at = (id) => document.getElementById(id);
const saves = (d) => ["task", "fleet"].includes(d.promise);  // its bound is what was saved by then, and it has no floor

export function start() {
  at("close").addEventListener("click", () => at("detail").close());
  at("detail").addEventListener("click", (event) => { if (event.target === at("detail")) at("detail").close(); });
  at("detail").addEventListener("close", () => history.replaceState(null, "", location.pathname));
  window.addEventListener("hashchange", follow);
  follow();
}

export const openTask = (task) => { location.hash = `task/${encodeURIComponent(task)}`; };
const openDecision = (id) => { location.hash = `decision/${id}`; };

async function follow() {
  const [kind, name] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (!name || !["task", "decision"].includes(kind)) return;
  show(kind === "task" ? name : `Decision ${name}`, make("p", { class: "empty" }, "…"));
  try {
    if (kind === "task") showTask(await get(`/v1/tasks/${encodeURIComponent(name)}`));
    else showDecision(await get(`/v1/decisions/${encodeURIComponent(name)}`));
  } catch (reason) {
    show(name, make("p", { class: "wrong" }, reason.message));
  }
}

function show(title, ...parts) {
  at("detail-title").textContent = title;
  at("up").hidden = true;
  at("detail-body").replaceChildren(...parts);
  if (!at("detail").open) at("detail").showModal();
}

const facts = (entries) => make("dl", { class: "facts" }, ...entries.map(([term, value, field]) =>
  make("div", {}, make("dt", {}, term), make("dd", { "data-fact": field }, value))));

function showTask({ task, status, decisions, events }) {
  const s = status ?? {};
  const uplift = s.uplift == null ? DASH : `${signed(s.uplift)}`;
  const saved = decisions.length && decisions.every(saves);
  const heads = ["Decision", "Time", "Played", "Why", ...(saved ? ["Saved by then"] : ["Lower bound", "Floor"]), "Reward"];
  const chart = make("figure", { class: "chart free", "aria-label": "Rewards and floors over time" });
  show(task,
    facts([["Gate", make("span", { class: s.gate === "open" ? "pill open" : "pill" }, s.gate ?? DASH), "gate"],
      ["Decisions", count(s.decisions), "decisions"], ["Left the baseline", percent(s.left), "left"],
      ["Uplift when it left", uplift, "uplift"], ["Interval", s.uplift == null ? DASH : `${signed(s.uplift_low)} … ${signed(s.uplift_high)}`, "interval"],
      ...(s.gain == null ? [] : [["Measured gain", within(s.gain, s.gain_low, s.gain_high), "gain"], ["Valid at any time", `${within(s.gain_low, s.gain_low, s.gain_high)} … ${within(s.gain_high, s.gain_low, s.gain_high)}`, "gain-interval"]]),
      ...(s.saved == null ? [] : [[decisions[0]?.promise === "fleet" ? "Saved by the fleet" : "Saved so far", number(s.saved), "saved"]]), ...(s.harmed ? [["Times it fell short", count(s.harmed), "harmed"]] : []),
      ["Worst margin", number(s.worst_margin), "margin"], ["Rows", count(s.rows), "rows"], ["Rows needed", count(s.rows_needed), "needed"]]),
    make("h3", {}, `Rewards of the last decisions: those that left the baseline in colour${decisions.some(inRewards) ? ", floors as a line" : ""}`), chart,
    make("h3", {}, "Last decisions"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Last decisions" },
      make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((h) => make("th", { scope: "col" }, h)))),
        make("tbody", {}, ...decisions.slice(0, 60).map((d) => line(d, saved))))),
    make("h3", {}, "Refits and alarms"), make("ul", {}, ...events.slice(0, 20).map((e) => make("li", {}, `${clock(e.time)} · ${said(e)}`))));
  pastChart(chart, decisions, events);
}

export const said = (e) => (e.kind === "refit" ? `model ${e.version} serves` : `drift of ${e.task ?? "every task"}`);

const action = (d) => d.arm ?? `action ${d.action}`;
const usual = (d) => d.usual_arm ?? `action ${d.baseline}`;

function line(d, saved) {
  return make("tr", { "data-decision": d.id },
    make("td", {}, make("button", { type: "button", class: "link", onclick: () => openDecision(d.id) }, `${d.id}`)),
    make("td", {}, clock(d.time)), make("td", {}, d.left ? action(d) : make("span", { class: "dim" }, "baseline")),
    make("td", {}, make("span", { class: `pill ${d.reason.split(":")[0]}` }, d.reason)),
    make("td", {}, number(d.bound)), ...(saved ? [] : [make("td", {}, number(d.floor))]), make("td", {}, d.retracted ? "retracted" : number(d.reward)));
}

function showDecision(d) {
  const rungs = make("figure", { class: "chart free", "aria-label": "From the floor to the estimate" });
  const bars = make("figure", { class: "chart free", "aria-label": "What each feature adds" });
  const drawn = d.probabilities != null, steps = marksOf(d).length > 1;
  show(`Decision ${d.id}`, make("p", { class: "say", id: "why" }, sentence(d)),
    facts([["Task", d.task, "task"], ["Time", clock(d.time), "time"], ["Model", d.version || "none yet", "version"],
      ["Offered", count(d.n_actions), "offered"], ["Baseline reward", d.low === d.high ? number(d.high) : `${number(d.low)} … ${number(d.high)}`, "claimed"],
      ...(drawn ? [["Probability", percent(d.probability), "probability"], ["Drawn from", d.probabilities.map((p) => percent(p)).join(" · "), "drawn"]] : []), ...(d.promise ? [["Promise", d.promise, "promise"]] : []),
      ...(d.limited_by ? [["Limited by", d.limited_by, "limited"]] : []), ["Reward", d.retracted ? "retracted" : number(d.reward), "reward"]]),
    ...(d.played && steps ? [make("h3", {}, inRewards(d) ? "From the floor to the estimate" : "What the model expects"), rungs] : []),
    ...(d.played ? [make("h3", {}, "What the features add: played in colour, the baseline in grey, the difference at the right"), bars]
      : [make("p", { class: "empty" }, "The model that decided knew nothing of this task, or was not kept.")]));
  at("up").hidden = false;
  at("up").onclick = () => openTask(d.task);
  if (d.played && steps) ladder(rungs, d);
  if (d.played) featureBars(bars, d.features);
}

function sentence(d) {
  const drawn = d.probability != null && d.probability < 1 ? ` It was drawn with probability ${percent(d.probability)}.` : "";
  const played = d.usual_arm ? `The baseline, ${d.usual_arm}, was played` : "The baseline was played";
  const worth = d.usual ? ` The model expects ${number(d.usual.value)} of it (standard error ${number(d.usual.error)}).` : "";
  if (!d.left) return d.reason === "drawn" ? `${played}.${drawn}${worth}` : `${played}: ${d.reason.replace(":", ", ").replaceAll("-", " ")}.${drawn}${worth}`;
  const ahead = d.ahead ? ` The model expects ${signed(d.ahead.value)} more than the baseline earns (standard error ${number(d.ahead.error)}).` : "";
  return `${d.arm ?? `Action ${d.action}`} was played instead of the baseline, ${usual(d)}.${drawn}${above(d)}${ahead}`;
}

function above(d) {
  if (d.bound == null || d.floor == null) return "";
  if (saves(d)) return d.bound > 0 ? ` By then at least ${number(d.bound)} had been saved, to be spent on such draws.` : "";
  return ` Its lower bound ${number(d.bound)} is ${number(d.bound - d.floor)} above the floor ${number(d.floor)}.`;
}
