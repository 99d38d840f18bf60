// The columns that the server made of each name of x, and how much the predictions depend on the name.

import { html } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { count, figure, Name, percent, plural, Problem, usePolled } from "./parts.js";

const AGAIN_MS = 60_000; // time between two requests; each request computes some hundred predictions
const IS = { number: () => "numbers", category: ({ values }) => plural(values, "value"), time: () => "times", text: () => "texts, by their words", identifier: () => "left out: nearly all its values differ" };

const MISSING_SHARE = 0.95; // minimum share of examples without a value of a column to leave out

// The reason to leave a column out of the next model. Null without a reason.
const useless = ({ kinds, missing }) => (kinds.includes("identifier") ? "nearly all its values differ" : missing >= MISSING_SHARE ? `missing in ${percent(missing, 0)} of the examples` : null);

// The usual numbers of a column, or its most frequent texts.
const Values = ({ column: { usual, frequent } }) => html`${usual && `${figure((usual[0] + usual[1]) / 2)} ± ${figure((usual[1] - usual[0]) / 2)}`}${frequent.map(({ value, share }, i) =>
  html`${i || usual ? ", " : ""}<${Name} of=${value} cut=${24} /> <small>${percent(share, 0)}</small>`)}`;

// names: the number of all columns.
export function Columns({ model, names }) {
  const [found, error, again] = usePolled(() => ask("GET", `models/${path(model)}/columns`), AGAIN_MS, [model]);
  if (!found) return error ? html`<${Problem} error=${error} again=${again} />` : html`<p class="waiting">Loading…</p>`;
  const columns = [...found.columns].sort((a, b) => (b.effect ?? -1) - (a.effect ?? -1));
  if (!columns.length) return html`<p class="soft">The columns of this model have no names.</p>`;
  const leave = columns.filter(useless);
  return html`<section>${leave.length > 0 && html`<ul class="warnings" aria-label="Columns to leave out">${leave.map((c) => html`<li key=${c.name}>Leave <b><${Name} of=${c.name} cut=${40} /></b> out of a new model: ${useless(c)}.</li>`)}</ul>`}
    ${names > columns.length && html`<p>These are the first ${count(columns.length)} of ${count(names)} columns.</p>`}
    <p class="soft">Numbers are means with deviations, of the first examples, from which the model took its scales. Other shares are of the examples that the model keeps; these are doubtful more often than usual. The effect of a column: the share of the kept examples that the model would predict otherwise without the column. A model keeps its columns: to leave one out, <a href="#/data">import the file into a new model</a>.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Columns"><table>
    <thead><tr><th scope="col">Column</th><th scope="col">What it is</th><th scope="col">Usual values</th><th scope="col" class="number">Missing</th><th scope="col" class="number">Effect</th></tr></thead>
    <tbody>${columns.map((column) => html`<tr key=${column.name}><th scope="row"><${Name} of=${column.name} cut=${40} /></th>
      <td>${column.kinds.map((kind) => IS[kind](column)).join(", ")}</td><td class="values"><${Values} column=${column} /></td>
      <td class="number">${percent(column.missing, 0)}</td><td class="number">${percent(column.effect)}</td></tr>`)}</tbody></table></div></section>`;
}
