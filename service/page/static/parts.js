// Small parts that all views share: numbers as text, messages, dialogs.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";

export const count = (n) => (n ?? 0).toLocaleString("en");
export const percent = (v, digits = 1) => (v === null || v === undefined ? "–" : `${(100 * v).toFixed(digits)} %`);
export function figure(v) {
  if (v === null || v === undefined) return "–";
  if (typeof v !== "number" || Number.isInteger(v)) return typeof v === "number" ? count(v) : String(v);
  return Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2) : v.toPrecision(4).replace(/\.?0+$/, "");
}
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// A label as people read it; true, 1 and "1" are three.
export const shownLabel = (label) =>
  typeof label === "string" && !/^(true|false|null|-?\d+)$/.test(label) && label !== "" && !label.startsWith('"')
    ? label
    : JSON.stringify(label);
export const same = (a, b) => typeof a === typeof b && a === b;
// What somebody typed, as a label: an integer, true, false, or a string, in quotes where it could be either.
export function typedLabel(text) {
  const word = text.trim();
  if (/^(true|false|-?\d{1,15}|".*")$/.test(word)) {
    try { return JSON.parse(word); } catch { return word; }
  }
  return word;
}

export const Name = ({ of, cut = 80 }) => {
  const text = typeof of === "string" ? of : shownLabel(of);
  return html`<bdi title=${text.length > cut ? text : null}>${text.length > cut ? `${text.slice(0, cut)}…` : text}</bdi>`;
};

// What the name of a model or a challenger is, as the server has it, for `pattern`.
export const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]*";

// Where a view of a model is.
export const link = (model, view = "") => `#/models/${path(model)}${view && `/${view}`}`;

// Forget an example, as an answer of one annotator where there is one, if whoever asks is sure; whether it was. Throws
// Refused.
export async function forgotten(model, id, annotator = null) {
  if (!confirm(`Forget ${id.slice(0, 80)} for good? It can never be learned again.`)) return false;
  const to = annotator === null ? `examples/${path(id)}` : `answers/${path(id)}?annotator=${encodeURIComponent(annotator)}`;
  await ask("DELETE", `models/${path(model)}/${to}`);
  return true;
}

// Say something to who cannot see it change.
export function announce(text) {
  if (told.push(text) > 1) return;
  queueMicrotask(() => { document.getElementById("status").textContent = told.splice(0).join(". "); });
}
const told = []; // in this moment: what is said together is heard together

export const Problem = ({ error, again }) => error && html`
  <p class="problem" role="alert">${error.message}
    ${again && html` <button class="plain" onClick=${again}>Try again</button>`}</p>`;

// What is to be known of columns, a sentence each.
export const Warnings = ({ of }) => of.length > 0 && html`<ul class="warnings" aria-label="About the columns">${of.map((text) => html`<li><bdi>${text}</bdi></li>`)}</ul>`;

// What stands where a view has nothing to show yet, or cannot: with a heading, so that it can be found.
export const Instead = ({ title, error, again }) => html`<h1 class=${error ? "" : "hidden"}><bdi>${title}</bdi></h1>
  ${error ? html`<${Problem} error=${error} again=${again} />` : html`<p class="waiting">One moment</p>`}`;

// Call `work` now and every `ms` while the tab can be seen; returns [what it last gave, its last error, call it now].
export function usePolled(work, ms, on = []) {
  const [found, setFound] = useState(undefined);
  const [error, setError] = useState(null);
  const run = useRef(() => {});
  useEffect(() => {
    let ended = false, timer = null, busy = false, once_more = false;
    setFound(undefined);
    const go = async () => {
      clearTimeout(timer);
      if (busy) { once_more = true; return; }
      busy = true;
      try {
        const got = await work();
        if (!ended) { setFound(got); setError(null); }
      } catch (caught) {
        if (!ended) setError(caught);
      }
      busy = false;
      if (ended) return;
      timer = setTimeout(() => (document.hidden ? (timer = setTimeout(go, ms)) : go()), once_more ? 50 : ms);
      once_more = false;
    };
    run.current = go;
    go();
    return () => { ended = true; clearTimeout(timer); };
  }, on);
  return [found, error, () => run.current()];
}

// A dialog of the browser's own: it keeps the focus inside and gives it back. Open from the moment in which it is there:
// a key that came between would be for the page behind it.
export function Dialog({ title, close, children }) {
  const box = useRef();
  useLayoutEffect(() => { box.current.showModal(); }, []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${close}
    onClick=${(e) => e.target === box.current && box.current.close()}>
    <header><h2>${title}</h2><button class="plain" aria-label="Close" onClick=${() => box.current.close()}>×</button></header>
    ${children}</dialog>`;
}

export const Bar = ({ value, max = 1, label }) => html`<progress value=${value} max=${max} aria-label=${label}></progress>`;

// The interval in which a share lies that was seen k times of n (Wilson, 95 %).
export function interval(share, n) {
  if (!n || share === null) return null;
  const z = 1.96, denominator = 1 + (z * z) / n;
  const middle = (share + (z * z) / (2 * n)) / denominator;
  const half = (z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n))) / denominator;
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
