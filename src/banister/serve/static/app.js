// The page: totals, charts, gates and the feed, kept up to date by the service's events.

import { Refused, events, get, keepToken } from "./calls.js";
import { gainChart, shareChart } from "./charts.js";
import * as detail from "./detail.js";
import { DASH, ago, count, make, percent, within } from "./format.js";
import * as tasks from "./tasks.js";

const at = (id) => document.getElementById(id);
const POINTS = 1200, LINES = 50, PAUSE = 2000;
let trail = [], happened = [];

function showTotals(s) {
  for (const name of ["decisions", "rewards", "pending", "n_tasks", "drifts", "rank", "model_version"]) {
    const place = document.querySelector(`[data-field="${name}"]`);
    place.textContent = count(s[name]);
    place.dataset.value = s[name];
  }
  showGain(s.earned, s.left);
  at("promise").textContent = s.promise ?? "";
  at("trouble").textContent = s.refit_failure ? `The last refit failed: ${s.refit_failure}` : "";
  at("left").textContent = s.decisions ? percent(s.left) : DASH;
  at("left").dataset.value = s.left;
  at("left-range").textContent = `of ${count(s.decisions)} decisions`;
  showGates(s.gates);
  tasks.offerGates(s.gates);
  document.title = `${s.earned.value == null ? percent(s.left) : within(s.earned.value, s.earned.low, s.earned.high)} · Banister`;
}

function showGain({ value, low, high, anytime }, left) {
  const place = at("gain");
  place.textContent = within(value, low, high);
  Object.assign(place.dataset, { value, low, high, sign: value == null ? "" : low > 0 ? "up" : high < 0 ? "down" : "" });
  at("gain-range").textContent = value == null ? unknown(left) : `between ${within(low, low, high)} and ${within(high, low, high)}`;
  at("gain-kind").textContent = value == null ? "" : anytime ? "measured, valid at any time" : "by the model";
  at("gain-kind").dataset.sure = anytime ? "yes" : "no";
}

// Something may have left and tell nothing: its rewards have not come, or came before the world changed.
const unknown = (left) => (left ? "What leaving the baseline earns now is not known yet." : "Nothing has left the baseline yet.");

function showGates(gates) {
  const entries = Object.entries(gates).sort(([a, m], [b, n]) => (a === "open" ? -1 : b === "open" ? 1 : n - m));
  const shift = entries[0]?.[0] === "open" ? 0 : 1, colour = (i) => `g${Math.min(i + shift, 5)}`;  // the first colour is that of open gates
  at("gates-bar").replaceChildren(...entries.map(([, n], i) => { const part = make("i", { class: colour(i) }); part.style.flexGrow = n; return part; }));
  const focused = document.activeElement?.dataset?.gate;
  at("gates-list").replaceChildren(...entries.map(([gate, n], i) => make("li", {}, make("button",
    { type: "button", "data-gate": gate, "data-count": n, "aria-pressed": `${tasks.gateShown() === gate}`, onclick: () => pickGate(gate, gates) },
    make("i", { class: colour(i) }), gate, make("b", {}, count(n))))));
  if (focused) document.querySelector(`#gates-list [data-gate="${CSS.escape(focused)}"]`)?.focus();
}

function pickGate(gate, gates) {
  tasks.filterGate(tasks.gateShown() === gate ? "" : gate);
  showGates(gates);
}

function showFeed(fresh = null) {
  at("feed").replaceChildren(...(happened.length ? happened.map((e) => make("li", { class: e === fresh ? "new" : null, "data-kind": e.kind },
    make("i"), make("span", {}, detail.said(e)), make("time", {}, ago(e.time)),
    make("small", {}, e.kind === "refit" ? `after ${count(e.rewards)} rewards of ${count(e.decisions)} decisions` : `after decision ${count(e.after)}; its gate is shut until the next fit`)))
    : [make("li", {}, make("span", { class: "empty" }, "No refit yet."))]));
}

function showCharts() {
  gainChart(at("gain-chart"), trail);
  shareChart(at("left-chart"), trail);
}

function state(name, text) {
  if (name !== "lost") delete document.documentElement.dataset.lost;
  at("live").dataset.state = name;
  at("live").lastElementChild.textContent = text;
}

async function load() {
  const [status, points, before] = await Promise.all([get("/v1/status"), get("/v1/trail"), get("/v1/happenings")]);
  trail = points.points;
  happened = before.events;
  showTotals(status);
  showCharts();
  showFeed();
  await tasks.refresh();
  if (document.documentElement.dataset.lost) state("waiting", "connecting");
  document.documentElement.dataset.ready = "yes";
}

async function listen() {
  for await (const { kind, data } of events()) {
    state("live", "live");
    if (kind === "status") {
      if (data.point.time !== trail.at(-1)?.time) trail = [...trail, data.point].slice(-POINTS);
      showTotals(data);
      showCharts();
      await tasks.refresh();
    } else if (kind === "refit" || kind === "alarm") {
      happened = [data, ...happened].slice(0, LINES);
      if (kind === "refit") at("model").textContent = count(data.version);  // before the next status
      showFeed(data);
    }
  }
}

async function stay() {
  for (;;) {
    try {
      await load();
      await listen();
    } catch (reason) {
      if (reason instanceof Refused && [401, 403].includes(reason.status)) { await askToken(reason); continue; }
      console.info(`banister: ${reason.message}`);
    }
    const since = document.documentElement.dataset.lost ??= new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    state("lost", `connection lost at ${since}, trying again`);
    await new Promise((done) => setTimeout(done, PAUSE));
  }
}

function askToken(reason) {
  at("ask-wrong").textContent = sessionStorage.getItem("banister-token") ? reason.message : "";
  at("ask").showModal();
  return new Promise((done) => {
    at("ask-form").onsubmit = (event) => {
      event.preventDefault();
      keepToken(at("token").value.trim());
      at("token").value = "";
      at("ask").close();
      done();
    };
  });
}

function startTheme() {
  const root = document.documentElement, kept = localStorage.getItem("banister-theme");
  if (kept) root.dataset.theme = kept;
  at("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("banister-theme", root.dataset.theme);
  });
}

startTheme();
tasks.start(detail.openTask);
detail.start();
new ResizeObserver(showCharts).observe(at("gain-chart"));
setInterval(() => showFeed(), 30000);
stay();
