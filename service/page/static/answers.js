// The answers that were given: each of mine can be changed, or forgotten; each annotator in numbers. What others have
// answered as well, and what stands under another name than that of an annotator's key, a writer alone may forget.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { ask, may, path, who } from "./api.js";
import { announce, count, forgotten, Name, percent, Problem, usePolled } from "./parts.js";

const PAIRS = 10; // of annotators, those with the most in common

// How often an annotator's labels are the same as those of others, be they settled or not; null where there are none.
function asOthers(name, pairs) {
  const own = pairs.filter((pair) => pair.annotators.includes(name)), n = own.reduce((sum, pair) => sum + pair.examples, 0);
  return n ? own.reduce((sum, pair) => sum + pair.same, 0) / n : null;
}

export function Answers({ model, annotator, changes, pick, gone, disabled }) {
  const to = `models/${path(model)}`;
  const [found, problem, again] = usePolled(() => ask("GET", `${to}/answers?n=50&annotator=${encodeURIComponent(annotator)}`), 10_000, [model, annotator, changes]);
  const [kept, setKept] = useState(null);
  const [error, setError] = useState(null);
  if (found && found !== kept) setKept(found); // what was there stays while it is read anew
  const shown = found ?? kept;
  const chosen = useRef(null); // the answer that is being fetched, unless another is being changed by now
  if (disabled) chosen.current = null;
  const open = async (answer) => {
    chosen.current = answer;
    try {
      const { x } = await ask("GET", `${to}/examples/${path(answer.id)}`);
      if (chosen.current !== answer) return;
      setError(null);
      pick({ id: answer.id, label: answer.label, x });
    } catch (caught) { setError(caught); }
  };
  const forget = async ({ id }) => {
    try {
      if (!await forgotten(model, id, may("writer") ? null : annotator)) return;
      announce("Forgotten");
      gone(id);
      setError(null);
    } catch (caught) { setError(caught); }
    again();
  };
  const mayForget = may("writer") || who.name === annotator;
  const names = Object.entries(shown?.annotators ?? {});
  return html`<section class="card" aria-label="Answers"><h2>Your answers</h2><${Problem} error=${error ?? (shown ? null : problem)} />
    ${shown?.answers.length ? html`<ul class="given-list">${shown.answers.map((answer) => html`<li key=${answer.id}>
      <button class="plain" disabled=${disabled} title="Change this answer" onClick=${() => open(answer)}><b><${Name} of=${answer.label} cut=${30} /></b> <small><${Name} of=${answer.id} cut=${40} /></small></button>
      ${mayForget && answer.learned && html`<button class="plain danger" aria-label=${`Forget ${answer.id.slice(0, 80)}`} onClick=${() => forget(answer)}>Forget</button>`}</li>`)}</ul>`
    : html`<p class="soft">None yet. Each can be changed here.</p>`}
    ${!mayForget && html`<p class="soft">Your key is <bdi>${who.name}</bdi>: what was answered under another name a writer may have forgotten.</p>`}
    ${names.length > 0 && html`<details><summary>Everyone's figures</summary><div class="scroll" tabindex="0" role="group" aria-label="Annotators"><table class="behind">
      <thead><tr><th scope="col">Who</th><th scope="col" class="number">Labels</th><th scope="col" class="number" title="Answers that were what the model had said">As predicted</th><th scope="col" class="number" title="Of pairs of labels, this annotator's and another's of the same example: those that are the same">As others</th></tr></thead>
      <tbody>${names.map(([name, t]) => html`<tr><th scope="row"><${Name} of=${name} cut=${20} /></th><td class="number">${count(t.labelled)}</td>
        <td class="number">${t.predicted ? percent(t.as_predicted / t.predicted, 0) : "–"}</td><td class="number">${percent(asOthers(name, shown.agreement), 0)}</td></tr>`)}</tbody></table></div>
      ${shown.agreement.length > 0 && html`<div class="scroll" tabindex="0" role="group" aria-label="Agreement of each two"><table class="behind">
        <thead><tr><th scope="col">Each two</th><th scope="col" class="number">In common</th><th scope="col" class="number">The same</th><th scope="col" class="number" title="Cohen's kappa: 1 always the same, 0 as often as by chance">Kappa</th></tr></thead>
        <tbody>${shown.agreement.slice(0, PAIRS).map((pair) => html`<tr><th scope="row">${pair.annotators.map((name, i) => html`${i ? ", " : ""}<${Name} of=${name} cut=${20} />`)}</th>
          <td class="number">${count(pair.examples)}</td><td class="number">${percent(pair.same / pair.examples, 0)}</td><td class="number">${pair.kappa === null ? "–" : pair.kappa.toFixed(2)}</td></tr>`)}</tbody></table></div>`}
      ${shown.disagreement !== null && html`<p class="soft">${percent(shown.disagreement, 0)} of the candidates answered got different labels.</p>`}</details>`}</section>`;
}
