// The events of a model, newest first. An admin can take the model back to the state before an event.

import { html, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { announce, count, link, Listed, plural, Problem } from "./parts.js";
import { fold, form } from "./standing.js";

const SHOWN = 100; // maximum number of events in the list
const UNDONE = new Set(["promoted", "swapped", "reconfigured"]); // kinds of events that people undo

// The number of examples and the time of the first point on the curve at or after a position of the log. by: or after
// another of the curve's figures that only rise.
export function near(curve, least, by = "position") {
  let i = curve[by].findIndex((value) => value >= least);
  if (i < 0) i = curve.position.length - 1;
  return { examples: curve.examples[i] ?? 0, at_ms: curve.at_ms[i] ?? 0 };
}

export function Happened({ model, history, rivals, drifted, changed, again }) {
  const [error, setError] = useState(null), [busy, setBusy] = useState(null); // the position of the event that is taken back
  const takeBack = async ({ text, position, examples }) => {
    const since = history.curve.examples.at(-1) - examples;
    const lost = since > 0 ? ` The ${count(since)} examples learned since then are undone too.` : "";
    if (!confirm(`Take the model back to its state before "${text}"?${lost}`)) return;
    setBusy(position);
    try {
      await ask("POST", `models/${path(model)}/rollback`, { position: position - 1 });
      announce("Taken back");
      setError(null);
    } catch (caught) { setError(caught); }
    setBusy(null);
    again();
  };
  const undoable = may("admin") && history.marks.some((m) => UNDONE.has(m.kind));
  return html`<section>${drifted && html`<p>The errors became more frequent. ${rivals.length ? html`${plural(rivals.length, "challenger")} (<${Listed} of=${rivals.map((name) => [name])} />) already learn${rivals.length === 1 ? "s" : ""} beside the model: <a href=${fold(model, "challengers")}>compare</a>, and promote the better.`
      : html`If the world has changed, <a href=${form(model, "half_life")}>try a half-life</a> in a challenger.`}
    ${" "}If labels are wrong, <a href=${link(model, "suspects")}>check them</a>.${undoable && " If a change of the settings caused it, take the change back below."}</p>`}
    ${changed && html`<p>The inputs are no longer like those before. If the source is broken, repair it; if the world has changed, label some of the new inputs.</p>`}<h3>Events</h3><${Problem} error=${error} />
  ${history.marks.length === 0 ? html`<p class="soft">No events yet. Drifts, changes and promotions appear here.</p>` : html`<div class="behind" tabindex="0" role="group" aria-label="Events"><table>
    <thead><tr><th scope="col">Event</th><th scope="col" class="number">Example</th><th scope="col">Time</th>${undoable && html`<th scope="col">Actions</th>`}</tr></thead>
    <tbody>${history.marks.slice(-SHOWN).reverse().map((m) => html`<tr><th scope="row">${m.text}</th><td class="number">${count(m.examples)}</td>
      <td>${new Date(m.at_ms).toLocaleString("en")}</td>${undoable && html`<td>${UNDONE.has(m.kind) && html`<button class="plain" disabled=${busy !== null} onClick=${() => takeBack(m)}>${busy === m.position ? "Taking back…" : "Take back"}</button>`}</td>`}</tr>`)}</tbody></table></div>`}
  <p class="soft">${history.snapshots.length ? `${history.snapshots.length > 1 ? "Snapshots at positions" : "Snapshot at position"} ${history.snapshots.map(count).join(" and ")}.` : "No snapshot yet."}</p></section>`;
}
