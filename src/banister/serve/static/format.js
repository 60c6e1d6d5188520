// Numbers and elements, the same everywhere.

export const DASH = "–";
const whole = new Intl.NumberFormat("en-GB");
const short = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });

export const count = (n) => (n == null ? DASH : whole.format(n));
export const number = (n) => (n == null ? DASH : Math.abs(n) >= 1e6 || (n !== 0 && Math.abs(n) < 1e-4)
  ? n.toExponential(2) : short.format(n)).replace("-", "−");
export const signed = (n) => (n == null ? DASH : (n > 0 ? "+" : "") + number(n));
// As many digits as the width of its interval can tell.
export function within(n, low, high) {
  if (n == null) return DASH;
  const digits = high > low ? Math.max(0, Math.min(8, -Math.floor(Math.log10(high - low)))) : 3;
  const text = n.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : (n > 0 ? "+" : "") + text.replace("-", "−");
}
export const percent = (n) => (n == null ? DASH : n > 0 && n < 0.001 ? "< 0.1 %"
  : `${(100 * n).toFixed(n < 0.1 || n > 0.995 ? 1 : 0)} %`);

export function ago(time) {
  const seconds = Math.max(0, Date.now() / 1000 - time);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

export const clock = (time) => new Date(time * 1000).toLocaleString("en-GB",
  { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

// An element; text is always text, never markup, so no label can inject anything.
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value != null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
