// Small parts that all views share: numbers as text, labels, messages, polling, dialogs.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";

export const count = (n) => (n ?? 0).toLocaleString("en");
export const percent = (v, digits = 1) => (v === null || v === undefined ? "–" : `${(100 * v).toFixed(digits)} %`);
export function figure(v) {
  if (v === null || v === undefined) return "–";
  if (typeof v !== "number" || Number.isInteger(v)) return typeof v === "number" ? count(v) : String(v);
  return Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2) : v.toPrecision(4).replace(/\.?0+$/, "");
}
// The reasons of decisions, in words.
export const REASONS = { cost: "lowest expected cost", unknown: "no probabilities yet", capacity: "the better decision was not left", promise: "the set has not one label", novelty: "unlike everything seen", explore: "let through to see its label" };
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// A label as text. Strings that look like a number or a boolean get quotes: true, 1 and "1" are three labels.
export const shownLabel = (label) =>
  typeof label === "string" && !/^(true|false|-?\d+)$/.test(label) && label !== "" && !label.startsWith('"')
    ? label
    : JSON.stringify(label);
export const same = (a, b) => typeof a === typeof b && a === b;
// Read a typed label: an integer, true, false, or a string. A string that looks like an integer or a boolean needs
// quotes.
export function typedLabel(text) {
  const word = text.trim();
  if (/^(true|false|-?\d{1,15}|".*")$/.test(word)) {
    try { return JSON.parse(word); } catch { return word; }
  }
  return word;
}

export const Name = ({ of, cut = 80 }) => {
  const text = String(of);
  return html`<bdi title=${text.length > cut ? text : null}>${text.length > cut ? `${text.slice(0, cut)}…` : text}</bdi>`;
};

// A label, with quotes where they tell "1" from 1.
export const LabelName = ({ of, cut }) => html`<${Name} of=${shownLabel(of)} cut=${cut} />`;

// The first of several names, with commas. of: [name, text behind it].
export const Listed = ({ of, most = 10 }) => html`${of.slice(0, most).map(([name, more = ""], i) => html`${i ? ", " : ""}<bdi>${String(name).slice(0, 60)}</bdi>${more}`)}${of.length > most ? ", …" : ""}`;

// The `pattern` of a field for the name of a model or a challenger: the server's rule for names.
export const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]*";

// The address of a model's view.
export const link = (model, view = "") => `#/models/${path(model)}${view && `/${view}`}`;

// Ask for confirmation, then forget an example. If an annotator is given, forget only this annotator's answer. Returns
// whether the user confirmed. Throws Refused.
export async function forgotten(model, id, annotator = null) {
  if (!confirm(`Forget ${id.slice(0, 80)} for good? The model can never learn it again.`)) return false;
  const to = annotator === null ? `examples/${path(id)}` : `answers/${path(id)}?annotator=${encodeURIComponent(annotator)}`;
  await ask("DELETE", `models/${path(model)}/${to}`);
  return true;
}

// Copy a text, which the element shows. Returns what happened in a word.
export async function copied(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
    return "Copied";
  } catch { // a page without TLS has no clipboard, unless it comes from this machine
    getSelection().selectAllChildren(element);
    announce("Selected: press Ctrl+C to copy");
    return "Selected: press Ctrl+C";
  }
}

// Make screen readers read a text aloud.
export function announce(text) {
  if (told.push(text) > 1) return;
  queueMicrotask(() => { document.getElementById("status").textContent = told.splice(0).join(". "); });
}
const told = []; // the current texts, which screen readers get as one text

export const Problem = ({ error, again }) => error && html`
  <p class="problem" role="alert">${error.message}
    ${again && html` <button class="plain" onClick=${again}>Try again</button>`}</p>`;

// Warnings about columns and classes, one sentence each.
export const Warnings = ({ of }) => of.length > 0 && html`<ul class="warnings" aria-label="Warnings">${of.map((text) => html`<li><bdi>${text.replaceAll("`", "")}</bdi></li>`)}</ul>`;

const FOLDS = "hinged-folds"; // name in localStorage: which folds the user has opened or closed
function foldsKept() {
  try { return JSON.parse(localStorage.getItem(FOLDS)) ?? {}; } catch { return {}; }
}

// A part of a view that is hidden until somebody opens it. The browser remembers which folds are open. wanted: the name
// of the fold that the address names. shown: whether the fold is open at first. said: a few words beside the title.
export function Fold({ name, title, said, wanted, shown = false, children }) {
  const [open, setOpen] = useState(() => wanted === name || (foldsKept()[name] ?? shown));
  const box = useRef();
  const turn = (to) => {
    if (to === open) return;
    setOpen(to);
    localStorage.setItem(FOLDS, JSON.stringify({ ...foldsKept(), [name]: to }));
  };
  useEffect(() => {
    if (wanted !== name) return;
    setOpen(true);
    box.current.scrollIntoView();
    box.current.querySelector("summary").focus({ preventScroll: true });
  }, [wanted]);
  return html`<details class="card fold" ref=${box} open=${open} onToggle=${(e) => e.target === box.current && turn(e.target.open)}>
    <summary><h2>${title}</h2>${said && html` <small>${said}</small>`}</summary>${open && children}</details>`;
}

// A placeholder for a view that is loading or has failed. The placeholder has a heading, so that screen readers find
// it.
export const Instead = ({ title, error, again }) => html`<h1 class=${error ? "" : "hidden"}><bdi>${title}</bdi></h1>
  ${error ? html`<${Problem} error=${error} again=${again} />` : html`<p class="waiting">Loading…</p>`}`;

// Call `work` now, and then every `ms` while the tab is visible; only once without `ms`. Returns [last result, last error,
// function to call now].
export function usePolled(work, ms, on = []) {
  const [found, setFound] = useState(undefined);
  const [error, setError] = useState(null);
  const run = useRef(() => {}), newest = useRef();
  newest.current = work;
  useEffect(() => {
    let ended = false, timer = null, busy = false, once_more = false;
    setFound(undefined);
    const go = async () => {
      clearTimeout(timer);
      if (busy) { once_more = true; return; }
      busy = true;
      try {
        const got = await newest.current();
        if (!ended) { setFound(got); setError(null); }
      } catch (caught) {
        if (!ended) setError(caught);
      }
      busy = false;
      if (ended || !(ms || once_more)) return;
      timer = setTimeout(() => (document.hidden ? (timer = setTimeout(go, ms)) : go()), once_more ? 50 : ms);
      once_more = false;
    };
    run.current = go;
    go();
    return () => { ended = true; clearTimeout(timer); };
  }, on);
  return [found, error, () => run.current()];
}

// A modal dialog of the browser. The dialog keeps the focus inside, and returns the focus when it closes. The dialog
// opens in a layout effect, before the browser handles another key. Otherwise that key would act on the page behind the
// dialog.
export function Dialog({ title, close, children }) {
  const box = useRef();
  useLayoutEffect(() => {
    box.current.showModal();
    box.current.querySelector("form :is(input, select, textarea)")?.focus();
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${close}
    onClick=${(e) => e.target === box.current && box.current.close()}>
    <header><h2>${title}</h2><button class="plain" aria-label="Close" onClick=${() => box.current.close()}>×</button></header>
    ${children}</dialog>`;
}

export const Bar = ({ value, max = 1, label }) => html`<progress value=${value} max=${max} aria-label=${label}></progress>`;

// The 95 % confidence interval (Wilson) of a share that was measured on n examples.
export function interval(share, n) {
  if (!n || share === null) return null;
  const z = 1.96, denominator = 1 + (z * z) / n;
  const middle = (share + (z * z) / (2 * n)) / denominator;
  const half = (z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n))) / denominator;
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
