// How good a model is for each class: precision and recall, and the confusion matrix in shares of the true class.

import { html } from "./vendor/htm-preact.js";
import { count, LabelName, percent, shownLabel } from "./parts.js";

// The order in which the classes are shown: numbers by size, then other labels by the alphabet.
export function orderOf(classes) {
  const number = (label) => (typeof label === "number" ? label : Infinity);
  const compare = (a, b) => (number(a) === number(b) ? String(a).localeCompare(String(b), "en", { numeric: true }) : number(a) - number(b));
  return classes.map((_, i) => i).sort((i, j) => compare(classes[i], classes[j]));
}

// A share as a whole percentage; a small share that is not 0 is "<1".
const whole = (share) => (share > 0 && share < 0.005 ? "<1" : (100 * share).toFixed(0));

export function Confusion({ confusion }) {
  if (!confusion || !confusion.classes.length) return html`<section><h3>Confusion matrix</h3><p class="soft">No matrix yet. It starts with the first labelled examples, for up to 32 classes.</p></section>`;
  const { classes, window: cells } = confusion, order = orderOf(classes);
  return html`<section><h3>Confusion matrix <small>newest 1,000 predictions, in % of the row</small></h3>
    <div class="scroll" tabindex="0" role="group" aria-label="Confusion matrix"><table class="confusion">
    <thead><tr><th scope="col">actual \\ predicted</th>${order.map((j) => html`<th scope="col"><${LabelName} of=${classes[j]} cut=${12} /></th>`)}<th scope="col">examples</th></tr></thead>
    <tbody>${order.map((i) => {
      const n = cells[i].reduce((a, b) => a + b, 0);
      return html`<tr key=${shownLabel(classes[i])}><th scope="row"><${LabelName} of=${classes[i]} cut=${12} /></th>${order.map((j) => {
        const share = n ? cells[i][j] / n : 0;
        return html`<td class=${i === j ? "right" : ""} title=${`${count(cells[i][j])} of ${count(n)}`} style=${{ background: share ? `color-mix(in srgb, var(${i === j ? "--c1" : "--bad"}) ${Math.round(8 + 27 * Math.sqrt(share))}%, transparent)` : "" }}>${share ? whole(share) : ""}</td>`;
      })}<td class="soft">${count(n)}</td></tr>`;
    })}</tbody></table></div></section>`;
}

// figures: the metrics of each class by name. classes: the labels.
export function ByClass({ figures, classes }) {
  if (!figures) return null;
  const rows = orderOf(classes).map((i) => [classes[i], figures[shownLabel(classes[i])]]).filter(([, it]) => it?.window);
  const long = rows.some(([, it]) => it.long);
  return html`<section><h3>Precision and recall <small>newest 1,000 predictions</small></h3>
    <div class="scroll" tabindex="0" role="group" aria-label="Precision and recall"><table>
    <thead><tr><th scope="col">Class</th><th scope="col" class="number">Examples</th><th scope="col" class="number" title="Share of the predictions of the class that are correct">Precision</th>
      <th scope="col" class="number" title="Share of the class that was predicted as the class">Recall</th><th scope="col" class="number">F1</th>
      ${long && html`<th scope="col" class="number" title="Of a watched class, in the long memory">Average precision</th>`}</tr></thead>
    <tbody>${rows.map(([label, { window, long: own }]) => html`<tr key=${shownLabel(label)}><th scope="row"><${LabelName} of=${label} cut=${30} /></th><td class="number">${count(window.examples)}</td>
      <td class="number">${percent(window.precision)}</td><td class="number">${percent(window.recall)}</td><td class="number">${percent(window.f1)}</td>
      ${long && html`<td class="number">${own ? percent(own.average_precision) : ""}</td>`}</tr>`)}</tbody></table></div></section>`;
}
