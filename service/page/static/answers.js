// The annotator's own answers, which the annotator can change or forget, and the figures of all annotators. Only a
// writer may forget an answer that other annotators also gave, or an answer under a name that differs from the key's
// name.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { ask, may, path, who } from "./api.js";
import { Example } from "./example.js";
import { announce, count, forgotten, LabelName, Name, percent, Problem, usePolled } from "./parts.js";

const PICTURES = 12; // number of newest answers with a picture; each picture needs a request
const PAIRS = 10; // maximum number of pairs of annotators shown; the pairs that share the most examples come first

// The share of agreeing labels among the annotator's labels for examples that another annotator also labelled. The
// share is null if there is no such label. Both settled and unsettled candidates count.
function agreementOf(name, pairs) {
  const own = pairs.filter((pair) => pair.annotators.includes(name)), n = own.reduce((sum, pair) => sum + pair.examples, 0);
  return n ? own.reduce((sum, pair) => sum + pair.same, 0) / n : null;
}

// A small picture of an answered example. given: its x, if this page has it.
function Thumbnail({ model, id, given, show }) {
  const [found] = usePolled(async () => given ?? (await ask("GET", `models/${path(model)}/examples/${path(id)}`)).x, null, [id]);
  return found && html`<${Example} x=${found} show=${show} side=${28} />`;
}

// given: the answers of this visit, with x. show: the part of the configuration.
export function Answers({ model, annotator, changes, given, show, pick, gone, disabled }) {
  const to = `models/${path(model)}`;
  const [found, problem, again] = usePolled(() => ask("GET", `${to}/answers?n=50&annotator=${encodeURIComponent(annotator)}`), 10_000, [model, annotator, changes]);
  const [kept, setKept] = useState(null);
  const [error, setError] = useState(null);
  if (found && found !== kept) setKept(found); // the old list stays on the screen while a new list is fetched
  const shown = found ?? kept;
  const chosen = useRef(null); // the answer to change when its x is fetched; null if the annotator changes another answer instead
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
    ${shown?.answers.length ? html`<ul class="given-list">${shown.answers.map((answer, i) => html`<li key=${answer.id}>${show?.image && i < PICTURES && html`<${Thumbnail} model=${model} id=${answer.id} given=${given.find((it) => it.id === answer.id)?.x} show=${show} />`}
      <button class="plain" disabled=${disabled} title="Change this answer" onClick=${() => open(answer)}><b><${LabelName} of=${answer.label} cut=${30} /></b> <small><${Name} of=${answer.id} cut=${40} /></small></button>
      ${mayForget && answer.learned && html`<button class="plain quiet" aria-label=${`Forget ${answer.id.slice(0, 80)}`} onClick=${() => forget(answer)}>Forget</button>`}</li>`)}</ul>`
    : html`<p class="soft">No answer yet. Label a question; you can change your answers here.</p>`}
    ${!mayForget && html`<p class="soft">Your key is named <bdi>${who.name}</bdi>. Only a writer can forget answers under another name.</p>`}
    ${names.length > 0 && html`<details><summary>All annotators</summary><div class="scroll" tabindex="0" role="group" aria-label="Annotators"><table class="behind">
      <thead><tr><th scope="col">Name</th><th scope="col" class="number">Labels</th><th scope="col" class="number" title="Share of answers that equal the model's prediction">As predicted</th><th scope="col" class="number" title="Share of labels that equal another annotator's label of the same example">Agreement</th><th scope="col" class="number" title="Estimated share of the answers to shared examples that are right">Reliability</th></tr></thead>
      <tbody>${names.map(([name, t]) => html`<tr><th scope="row"><${Name} of=${name} cut=${20} /></th><td class="number">${count(t.labelled)}</td>
        <td class="number">${t.predicted ? percent(t.as_predicted / t.predicted, 0) : "–"}</td><td class="number">${percent(agreementOf(name, shown.agreement), 0)}</td>
        <td class="number">${percent(t.reliability, 0)}</td></tr>`)}</tbody></table></div>
      ${shown.agreement.length > 0 && html`<div class="scroll" tabindex="0" role="group" aria-label="Agreement by pair"><table class="behind">
        <thead><tr><th scope="col">Pair</th><th scope="col" class="number">Both labelled</th><th scope="col" class="number">Same label</th><th scope="col" class="number" title="Cohen's kappa: 1 = always the same label, 0 = no more often than by chance">Kappa</th></tr></thead>
        <tbody>${shown.agreement.slice(0, PAIRS).map((pair) => html`<tr><th scope="row">${pair.annotators.map((name, i) => html`${i ? ", " : ""}<${Name} of=${name} cut=${20} />`)}</th>
          <td class="number">${count(pair.examples)}</td><td class="number">${percent(pair.same / pair.examples, 0)}</td><td class="number">${pair.kappa === null ? "–" : pair.kappa.toFixed(2)}</td></tr>`)}</tbody></table></div>`}</details>`}</section>`;
}
