// The table of tasks: searched, sorted and paged by the service, so that 10,000 are as quick as ten.

import { get } from "./calls.js";
import { interval } from "./charts.js";
import { count, make, number, percent, signed, within } from "./format.js";

const SIZE = 50;
const COLUMNS = [
  ["task", "Task", "text"], ["gate", "Gate", "text"], ["decisions", "Decisions"], ["rows", "Rows"], ["rows_needed", "Rows needed"], ["saved", "Saved"],
  ["left", "Left baseline"], ["gain", "Measured gain"], ["uplift", "Uplift where it left"], ["worst_margin", "Worst margin"],
];
const SOMETIMES = new Set(["rows_needed", "saved", "gain"]);  // shown where a task has one
const query = { search: "", gate: "", sort: "decisions", order: "down", offset: 0, limit: SIZE };
let asked = 0, open = () => {}, shown = [];
const at = (id) => document.getElementById(id);

export function start(onOpen) {
  open = onOpen;
  at("search").addEventListener("input", (event) => change({ search: event.target.value }));
  at("gate").addEventListener("change", (event) => filterGate(event.target.value));
  at("back").addEventListener("click", () => change({ offset: Math.max(0, query.offset - SIZE) }));
  at("more").addEventListener("click", () => change({ offset: query.offset + SIZE }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.target.closest("input, dialog")) {
      event.preventDefault();
      at("search").focus();
    }
  });
}

export function filterGate(gate) {
  at("gate").value = gate;
  change({ gate });
}

export const gateShown = () => query.gate;

export function offerGates(gates) {
  const names = Object.keys(gates).sort(), select = at("gate");
  if ([...select.options].slice(1).map((o) => o.value).join("\n") === names.join("\n")) return;
  select.replaceChildren(make("option", { value: "" }, "every gate"), ...names.map((g) => make("option", { value: g }, g)));
  select.value = query.gate;
}

function change(values) {
  Object.assign(query, { offset: 0 }, values);
  return refresh();
}

export async function refresh() {
  const mine = ++asked, found = await get(`/v1/tasks?${new URLSearchParams(query)}`);
  if (mine === asked) show(found);
}

function show({ total, tasks }) {
  const columns = COLUMNS.filter(([name]) => !SOMETIMES.has(name) || tells(name, tasks));
  const ends = (t, name) => (t[name] == null ? [] : [Math.abs(t[`${name}_low`]), Math.abs(t[`${name}_high`])]);
  const reach = { uplift: Math.max(...tasks.flatMap((t) => ends(t, "uplift")), 1e-12), gain: Math.max(...tasks.flatMap((t) => ends(t, "gain")), 1e-12) };
  heads(columns);
  keepFocus(() => at("rows").replaceChildren(...tasks.map((t) => row(t, columns, reach))));
  at("tasks-count").textContent = query.search || query.gate ? `${count(total)} match` : count(total);
  at("page").textContent = total ? `${count(query.offset + 1)}–${count(query.offset + tasks.length)} of ${count(total)}` : query.search || query.gate ? "no task matches" : "no task yet";
  at("back").disabled = query.offset === 0;
  at("more").disabled = query.offset + tasks.length >= total;
}

// What the whole fleet saved stands in every row alike, and says nothing of a task.
const tells = (name, tasks) => tasks.some((t) => t[name] != null) && (name !== "saved" || tasks.length === 1 || tasks.some((t) => t.saved !== tasks[0].saved));

function heads(columns) {
  const key = columns.map(([name]) => name).join() + query.sort + query.order;
  if (shown === key) return;
  shown = key;
  keepFocus(() => at("columns").replaceChildren(make("tr", {}, ...columns.map(([name, title, kind]) => {
    const sorted = query.sort === name ? (query.order === "up" ? "ascending" : "descending") : "none";
    const button = make("button", { type: "button", "data-focus": `sort-${name}`, onclick: () => sort(name, kind) }, title);
    return make("th", { scope: "col", class: kind, "aria-sort": sorted, "data-column": name }, button);
  }))));
}

function sort(name, kind) {
  const first = kind === "text" ? "up" : "down", other = first === "up" ? "down" : "up";
  change({ sort: name, order: query.sort === name && query.order === first ? other : first });
}

// The table is drawn anew while somebody may be using the keyboard in it.
function keepFocus(work) {
  const name = document.activeElement?.dataset?.focus;
  work();
  if (name) document.querySelector(`[data-focus="${CSS.escape(name)}"]`)?.focus();
}

function row(t, columns, reach) {
  const measured = (name) => {
    const [low, value, high] = [t[`${name}_low`], t[name], t[`${name}_high`]];
    const about = value == null ? { class: "dim" } : { title: `${signed(low)} to ${signed(high)}` };
    return make("span", about, within(value, low, high), interval(low, value, high, reach[name]));
  };
  const cell = {
    task: () => make("button", { type: "button", class: "link", title: t.task, "data-focus": `task-${t.task}`, onclick: () => open(t.task) }, t.task),
    gate: () => make("span", { class: t.gate === "open" ? "pill open" : "pill" }, t.gate),
    decisions: () => count(t.decisions), rows: () => count(t.rows), rows_needed: () => count(t.rows_needed), left: () => percent(t.left),
    uplift: () => measured("uplift"), gain: () => measured("gain"), saved: () => number(t.saved),
    worst_margin: () => number(t.worst_margin),
  };
  return make("tr", { "data-task": t.task, "data-uplift": t.uplift }, ...columns.map(([name, , kind]) => make("td", { class: kind, "data-column": name }, cell[name]())));
}
