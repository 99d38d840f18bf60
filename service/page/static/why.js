// Why a question was asked: its distance to the decision boundary, the prediction, and the examples that led to it.

import { html } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Example } from "./example.js";
import { figure, LabelName, Name, percent, Problem, usePolled } from "./parts.js";
import { LabelSet } from "./promise.js";

const REASONS = {
  active: "The model is most uncertain about it, among candidates unlike each other", autoactive: "The model is most uncertain about it, in a sample",
  random: "It was drawn at random", explore: "It was drawn at random, to measure the accuracy", gradient: "The model's error on it is largest",
  novelty: "It is most unlike the x seen before", again: "You took your answer back",
};
const NEIGHBOURS = 5; // number of support vectors shown

// The model's prediction for an x, and the support vectors that contribute most to it, each with its x.
export async function carriers(model, x) {
  const to = `models/${path(model)}`;
  const { results: [said] } = await ask("POST", `${to}/predict`, { examples: [{ x }], explain: NEIGHBOURS });
  const found = await Promise.all(said.support_vectors.map((sv) =>
    ask("GET", `${to}/examples/${path(sv.id)}`).then((example) => ({ ...sv, x: example.x }), () => ({ ...sv, x: null }))));
  return { ...said, support_vectors: found };
}

export function Neighbours({ of, show }) {
  return html`<ul class="neighbours">${of.map((sv) => html`<li key=${sv.id}>
    <${Example} x=${sv.x} show=${show} side=${88} most=${4} />
    <b><${LabelName} of=${sv.label} cut=${40} /></b> <span class="soft">${sv.contribution > 0 ? "+" : "−"}${figure(Math.abs(sv.contribution))}</span>
    <br /><small><${Name} of=${String(sv.id)} cut=${24} /></small></li>`)}</ul>`;
}

export function Why({ model, question, show }) {
  const [said, error] = usePolled(() => carriers(model, question.x), null, [model, question.id]);
  return html`<section class="card" aria-label="Why this question"><h2>Why this question?</h2>
    <p>${REASONS[question.reason] ?? question.reason ?? "You chose it"}${question.score !== null && question.score !== undefined && `. Its distance to the decision boundary was ${figure(question.score)}`}.</p>
    <${Problem} error=${error} />
    ${said && html`<p>${said.prediction === null ? "The model makes no prediction yet." : html`The model predicts <b><${LabelName} of=${said.prediction} /></b>${said.probability !== null && `, with probability ${percent(said.probability)}`}.`}</p>
      <${LabelSet} result=${said} />${said.support_vectors.length > 0 && html`<p>Examples behind the prediction, with their contributions:</p>`}<${Neighbours} of=${said.support_vectors} show=${show} />`}</section>`;
}
