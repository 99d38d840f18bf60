// The guide for annotators: instructions, and descriptions of labels, which also stand on the labels' buttons. An admin
// can edit it.

import { html, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { announce, Dialog, Problem, shownLabel } from "./parts.js";

const CHARS_MAX = 5000; // maximum length of a guide

// The guide's description of a label: the rest of a line that begins with the label and a colon, and with no longer label
// of the classes.
export function described(guide, label, classes) {
  const start = `${shownLabel(label)}:`, longer = classes.map((it) => `${shownLabel(it)}:`).filter((it) => it !== start && it.startsWith(start));
  return guide?.split("\n").find((line) => line.startsWith(start) && !longer.some((it) => line.startsWith(it)))?.slice(start.length).trim();
}

export function Guide({ model, guide, classes, changed }) {
  const [editing, setEditing] = useState(false), [error, setError] = useState(null);
  const close = () => { setEditing(false); setError(null); };
  const save = async (event) => {
    event.preventDefault();
    const text = event.target.elements.guide.value.trim();
    try {
      await ask("PATCH", `models/${path(model)}`, { labels: { guide: text || null } });
      announce("The guide is saved");
      changed();
      close();
    } catch (caught) { setError(caught); }
  };
  if (!guide && !may("admin")) return null;
  return html`<section class="card guide" aria-label="Guide"><h2>Guide</h2>
    ${guide ? html`<p class="lines" tabindex="0" role="group" aria-label="Text of the guide"><bdi>${guide}</bdi></p>` : html`<p class="soft">Tell annotators what to look for, and when to choose which label.</p>`}
    ${may("admin") && html`<button class="plain" onClick=${() => setEditing(true)}>${guide ? "Edit the guide" : "Write a guide"}</button>`}
    ${editing && html`<${Dialog} title="Guide for annotators" close=${close}><form onSubmit=${save}>
      <label>What annotators read beside each question <textarea name="guide" rows="10" cols="60" maxlength=${CHARS_MAX}>${guide ?? ""}</textarea></label>
      <p class="soft">A line such as <b><bdi>${shownLabel(classes[0] ?? "spam")}: what it is</bdi></b> describes a label, and stands on its button too.</p>
      <${Problem} error=${error} /><p class="row"><button class="main">Save</button></p></form></${Dialog}>`}</section>`;
}
