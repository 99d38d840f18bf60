// How good a model is for each value of the features that its configuration names as segments.

import { html } from "./vendor/htm-preact.js";
import { count, figure, Name, percent, plural } from "./parts.js";

export function Segments({ segments }) {
  return html`${Object.entries(segments).map(([feature, { values, other }]) => {
    const rows = [...values.map((it) => [it.value === null ? html`<span class="soft">no value</span>` : html`<${Name} of=${it.value} cut=${40} />`, it]),
      ...(other ? [[html`<span class="soft">${plural(other.values, "other value")}</span>`, other]] : [])];
    const costs = rows.some(([, it]) => it.cost !== null), classes = Object.keys(values[0]?.classes ?? {});
    return html`<section key=${feature}><h3><bdi>${feature}</bdi> <small>newest 10,000 predictions</small></h3>
      ${rows.length ? html`<div class="scroll" tabindex="0" role="group" aria-label=${`Segments by ${feature}`}><table>
      <thead><tr><th scope="col">Value</th><th scope="col" class="number">Examples</th><th scope="col" class="number">Accuracy</th>${costs && html`<th scope="col" class="number">Cost of a decision</th>`}
        ${classes.map((name) => html`<th scope="col" class="number">Precision of <bdi>${name}</bdi></th><th scope="col" class="number">Recall of <bdi>${name}</bdi></th>`)}</tr></thead>
      <tbody>${rows.map(([shown, it], i) => html`<tr key=${i}><th scope="row">${shown}</th><td class="number">${count(it.examples)}</td><td class="number">${percent(it.accuracy)}</td>
        ${costs && html`<td class="number">${it.cost === null ? "" : figure(it.cost)}</td>`}
        ${classes.map((name) => html`<td class="number">${percent(it.classes[name].precision)}</td><td class="number">${percent(it.classes[name].recall)}</td>`)}</tr>`)}</tbody></table></div>`
      : html`<p class="soft">No prediction with a label yet.</p>`}</section>`;
  })}`;
}
