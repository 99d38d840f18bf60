// The keyboard shortcuts for labelling: a key for each class and each action. The annotator can change the keys, but no
// two keys are the same.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Dialog, Name, shownLabel } from "./parts.js";

export const ACTIONS = { skip: "Skip for me", skipAll: "Skip for all", unsure: "Ask later", undo: "Undo", why: "Why this question?", another: "Another label", help: "Shortcuts" };
const USUAL = { skip: "s", skipAll: "x", unsure: "d", undo: "u", why: "w", another: "n", help: "?" };
const FOR_CLASSES = [..."123456789", ..."abcefghijklmopqrtvyz"];
const NAME = "hinged-keys-";

const nameOf = (label) => `class ${JSON.stringify(label)}`;

// kept: the keys that labels have got on this page, which it adds to: no key moves while somebody labels.
export function keysOf(model, classes, kept) {
  let chosen = {};
  try { chosen = JSON.parse(localStorage.getItem(NAME + model)) ?? {}; } catch { chosen = {}; }
  const keys = { ...USUAL, ...Object.fromEntries(Object.entries(chosen).filter(([action]) => action in ACTIONS)) };
  const taken = new Set(Object.values(keys));
  for (const label of classes) {
    const own = chosen[nameOf(label)] ?? kept[nameOf(label)] ?? ([...String(label)].length === 1 ? String(label) : null); // a label of one character is its own key
    if (own && !taken.has(own)) { keys[nameOf(label)] = own; taken.add(own); }
  }
  const left = FOR_CLASSES.filter((key) => !taken.has(key));
  for (const label of classes) keys[nameOf(label)] ??= kept[nameOf(label)] = left.shift() ?? null;
  return { of: (action) => keys[action], ofClass: (label) => keys[nameOf(label)], all: keys };
}

// Do what a pressed key stands for. find(key) returns a function, or undefined for a key that stands for nothing.
// Ignore keys while a field has the focus, a dialog is open, or Ctrl, Alt or Meta is held.
export function usePressed(find) {
  const now = useRef();
  now.current = find;
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
      const act = now.current(event.key);
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

// Call act[name] when its key is pressed.
export function useKeys(keys, classes, act) {
  usePressed((key) => {
    if (key === "Escape") return act.escape;
    const label = classes.find((known) => keys.ofClass(known) === key);
    return label !== undefined ? () => act.label(label) : act[Object.keys(ACTIONS).find((name) => keys.of(name) === key)];
  });
}

export function Keys({ model, classes, keys, changed, close }) {
  const [problem, setProblem] = useState(null);
  const rows = [...classes.map((label) => [nameOf(label), label]), ...Object.entries(ACTIONS)];
  const set = (action, event) => {
    if (["Tab", "Shift", "Escape", "Control", "Alt", "Meta"].includes(event.key)) return;
    event.preventDefault();
    if ([...event.key].length !== 1 || event.key === " ") return setProblem("Press a key that types one character.");
    const other = Object.keys(keys.all).find((name) => name !== action && keys.all[name] === event.key);
    if (other) return setProblem(`${event.key} is already used for: ${ACTIONS[other] ?? other}.`);
    setProblem(null);
    const chosen = { ...keys.all, [action]: event.key };
    localStorage.setItem(NAME + model, JSON.stringify(chosen));
    changed();
  };
  return html`<${Dialog} title="Keyboard shortcuts" close=${close}>
    <p class="soft">To change a shortcut, click its field and press the new key. Shortcuts do nothing while a field has the focus.</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <table class="keys"><tbody>${rows.map(([action, word]) => html`<tr><th scope="row"><${Name} of=${ACTIONS[action] ?? word} cut=${40} /></th>
      <td><input aria-label=${`key for ${ACTIONS[action] ?? shownLabel(word)}`} value=${keys.all[action] ?? ""} readonly onKeyDown=${(e) => set(action, e)} /></td></tr>`)}</tbody></table>
    <p><button class="plain" onClick=${() => { localStorage.removeItem(NAME + model); setProblem(null); changed(); }}>Reset to defaults</button></p></${Dialog}>`;
}
