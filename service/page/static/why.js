// Why a question was asked: how far it is from the boundary, what the model thinks, and the points that say so.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Example } from "./example.js";
import { figure, Name, percent, Problem } from "./parts.js";

const REASONS = {
  active: "the model knows it least, among those unlike each other", autoactive: "the model knows it least, of a sample", random: "drawn at random",
  explore: "drawn at random, for an honest accuracy", gradient: "the model errs on it most", again: "you took your answer back",
};
const NEIGHBOURS = 5;

// The support vectors that carry what a model says of an x, each with its own x.
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
    <b><${Name} of=${sv.label} cut=${40} /></b> <span class="soft">${sv.contribution > 0 ? "for" : "against"} it, ${figure(Math.abs(sv.contribution))}</span>
    <br /><small><${Name} of=${String(sv.id)} cut=${24} /></small></li>`)}</ul>`;
}

export function Why({ model, question, show }) {
  const [said, setSaid] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let ended = false;
    carriers(model, question.x).then((found) => !ended && setSaid(found), (caught) => !ended && setError(caught));
    return () => { ended = true; };
  }, [model, question.id]);
  return html`<section class="card" aria-label="Why this one"><h2>Why this one?</h2>
    <p>${REASONS[question.reason] ?? question.reason ?? "you chose it"}${question.score !== null && question.score !== undefined && `; ${figure(question.score)} from the boundary when it was asked`}.</p>
    <${Problem} error=${error} />
    ${said && html`<p>${said.prediction === null ? "The model has no opinion yet." : html`The model says <b><${Name} of=${said.prediction} /></b>${said.probability !== null && `, with probability ${percent(said.probability)}`}.
      It goes by these examples:`}</p><${Neighbours} of=${said.support_vectors} show=${show} />`}</section>`;
}
