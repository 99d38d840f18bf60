// A model's promise: the coverage of its sets of labels, beside what was promised, and the set of a prediction.

import { html } from "./vendor/htm-preact.js";
import { count, figure, interval, LabelName, Name, percent, plural } from "./parts.js";

const SHOWN = 20; // maximum number of labels of a set on the page

export const Lacking = ({ labels }) => labels > 0 && html`<p class="soft">${plural(labels, "more label")} must come until everything is promised.</p>`;

// promise: the part of a model's figures; undefined without a promise.
export function Coverage({ promise }) {
  if (!promise) return null;
  const rows = [["all examples", promise], ...Object.entries(promise.classes)];
  return html`<section><${Lacking} labels=${promise.lacking} />
    <div class="scroll" tabindex="0" role="group" aria-label="Coverage of the promise"><table>
    <thead><tr><td></td><th scope="col" class="number">Promised</th><th scope="col" class="number">Coverage, newest 2,000</th><th scope="col" class="number">Since the promise</th>
      <th scope="col" class="number">Labels in a set</th><th scope="col" class="number">Examples</th></tr></thead>
    <tbody>${rows.map(([name, { promised, window, all }], i) => {
      const likely = interval(window.coverage, window.examples);
      return html`<tr key=${i}><th scope="row"><${Name} of=${name} cut=${30} /></th><td class="number">${percent(promised)}</td>
        <td class="number">${percent(window.coverage)}${likely && html` <small>(${likely.map((v) => percent(v)).join(" to ")})</small>`}</td>
        <td class="number">${percent(all.coverage)}</td><td class="number">${figure(window.size)}</td><td class="number">${count(window.examples)}</td></tr>`;
    })}</tbody></table></div></section>`;
}

// result: the server's answer to predict. Without a promise, the answer has no set.
export const LabelSet = ({ result: { set, lacking = 0 } }) => set && html`
  <p>${set.length ? html`With the promise, the label is among: ${set.slice(0, SHOWN).map((label, i) => html`${i ? ", " : ""}<b><${LabelName} of=${label} cut=${40} /></b>`)}${
    set.length > SHOWN ? ` and ${count(set.length - SHOWN)} more` : ""}.` : "The set of the promise has no label: each label would be a surprise."}</p>
  <${Lacking} labels=${lacking} />`;
