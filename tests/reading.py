"""What a reader of a page would stumble over: words too faint for what lies behind them, words on words."""

from __future__ import annotations

from typing import Any

from browser import Tab

LEAST = 4.5  # the contrast that WCAG 2.1 asks of text of any size (level AA)

# Each visible piece of text: what it says, its contrast with what lies behind it, and where it stands. Of an
# open dialog and a page behind it, the dialog is read.
_SCAN = """(() => {
  const UNREAD = "script, style, noscript, option, title, .hidden, .skip, :disabled, dialog:not([open])";
  const part = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const colour = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3]));
  const ground = (e) => colour(getComputedStyle(e).backgroundColor);
  const behind = (e) => e ? over(ground(e), behind(e.parentElement)) : [255, 255, 255];
  const fades = (e) => e ? getComputedStyle(e).opacity * fades(e.parentElement) : 1;
  const read = (node) => {
    const e = node.parentElement, drawn = e instanceof SVGElement, style = getComputedStyle(e);
    const back = behind(drawn ? e.closest("svg").parentElement : e);
    const [r, g, b, solid] = colour(drawn ? style.fill : style.color);
    const ink = over([r, g, b, solid * fades(e)], back);
    const [dark, bright] = [light(back), light(ink)].sort((x, y) => x - y);
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].map((b) => [b.left, b.top, b.right, b.bottom]);
    return { text: node.textContent.trim(), contrast: (bright + 0.05) / (dark + 0.05), boxes };
  };
  const root = document.querySelector("dialog[open]") ?? document.body, found = [];
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, e = node.parentElement;
    const shown = !e.closest(UNREAD) && e.checkVisibility();
    if (node.textContent.trim() && shown) found.push(read(node));
  }
  return found;
})()"""


def hard_to_read(tab: Tab) -> dict[str, float]:
    """Texts with too little contrast, and how much they have."""
    return {t["text"]: round(t["contrast"], 2) for t in _texts(tab) if t["contrast"] < LEAST}


def overprinted(tab: Tab) -> list[tuple[str, str]]:
    """Pairs of texts that stand on each other; the space between lines may be shared."""
    boxes = [(box, t["text"]) for t in _texts(tab) for box in t["boxes"]]
    return [
        (one, other)
        for i, (a, one) in enumerate(boxes)
        for b, other in boxes[i + 1 :]
        if min(a[2], b[2]) - max(a[0], b[0]) > 1.5 and min(a[3], b[3]) - max(a[1], b[1]) > 3.5
    ]


def _texts(tab: Tab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tab.run(_SCAN)
    assert len(found) > 5  # something was read
    return found
