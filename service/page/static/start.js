// The start: the models that need somebody, all models, and the three ways to begin. It is refreshed once a second.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { ask, may } from "./api.js";
import { count, Fold, Instead, link, percent, plural, Problem, usePolled } from "./parts.js";
import { attention, suspectsOf } from "./standing.js";

const EVERY_MS = 1000;
const SUSPECTS_MS = 60_000; // time between two requests for the suspects of the models
const SUSPECTED_MAX = 10; // maximum number of models whose suspects are requested; each request computes their scores
const WIDTH = 120, HEIGHT = 28; // size of a small curve in pixels

// A small curve without axes. values: numbers from 0 to 1, or null.
export function Spark({ values, label }) {
  const known = values.map((v, i) => [i, v]).filter(([, v]) => v !== null);
  if (known.length < 2) return html`<svg class="spark" width=${WIDTH} height=${HEIGHT} aria-hidden="true"></svg>`;
  const least = Math.min(...known.map(([, v]) => v)), most = Math.max(...known.map(([, v]) => v));
  const span = Math.max(most - least, 0.1) /* less is noise */;
  const points = known.map(([i, v]) =>
    `${((i / (values.length - 1)) * (WIDTH - 4) + 2).toFixed(1)},${(HEIGHT - 3 - ((v - least) / span) * (HEIGHT - 6)).toFixed(1)}`);
  return html`<svg class="spark" width=${WIDTH} height=${HEIGHT} role="img" aria-label=${label}>
    <polyline points=${points.join(" ")} /><circle cx=${points.at(-1).split(",")[0]} cy=${points.at(-1).split(",")[1]} r="2" /></svg>`;
}

function Row({ it }) {
  const state = it.state === "serving" && it.jobs ? "retraining" : it.state;
  return html`<tr class=${it.state}>
    <th scope="row"><a href=${link(it.model)}><bdi>${it.model}</bdi></a><small>${it.solver}</small></th>
    <td><span class="state ${it.state}">${state}</span>${it.error && html`<small class="problem">${it.error}</small>`}</td>
    <td class="number">${it.examples === undefined ? "" : count(it.examples)}</td>
    <td class="number">${it.accuracy === undefined ? "" : percent(it.accuracy)}</td>
    <td>${it.curve && html`<${Spark} values=${it.curve} label=${`accuracy of ${it.model} over time, now ${percent(it.accuracy)}`} />`}</td>
    <td class="number">${it.queue === undefined ? "" : count(it.queue)}</td>
    <td class="number">${it.pool ? (may("annotator") ? html`<a href=${link(it.model, "label")}>${count(it.pool)} to label</a>` : count(it.pool)) : it.pool === 0 ? "0" : ""}</td>
  </tr>`;
}

const Models = ({ models }) => html`${models.length ? html`<div class="scroll" tabindex="0" role="group" aria-label="Models"><table class="models">
    <thead><tr><th scope="col">Model</th><th scope="col">State</th><th scope="col" class="number">Examples</th>
      <th scope="col" class="number" title="Over the newest 1,000 predictions">Accuracy</th><th scope="col">Accuracy over time</th>
      <th scope="col" class="number" title="Examples that wait to be learned">Queue</th><th scope="col" class="number">Pool</th></tr></thead>
    <tbody>${models.map((it) => html`<${Row} key=${it.model} it=${it} />`)}</tbody></table></div>`
  : html`<p class="soft">There is no model yet. ${may("admin") ? "Each way below creates one." : "An admin can create a model."}</p>`}`;

const Attention = ({ items }) => items.length > 0 && html`<section class="card attention" aria-label="Needs attention"><h2>Needs attention</h2>
  <ul>${items.map(({ model, text, href }) => html`<li key=${model + text}><a href=${href}><bdi>${model}</bdi> ${text}</a></li>`)}</ul></section>`;

// The browser loads the programs when somebody opens the fold.
function Programs({ models }) {
  const [Code, setCode] = useState(null);
  const [model, setModel] = useState(null);
  useEffect(() => { import("./code.js").then((module) => setCode(() => module.Code)); }, []);
  const names = models.map((it) => it.model), chosen = names.includes(model) ? model : names[0] ?? null;
  return html`${names.length > 1 && html`<label>Model <select value=${chosen} onChange=${(e) => setModel(e.target.value)}>${names.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`}
    ${Code && html`<${Code} key=${chosen} model=${chosen} />`}`;
}

function Begin({ models }) {
  const waiting = models.filter((it) => it.pool), serving = models.filter((it) => it.state === "serving");
  return html`<h2>Ways to begin</h2><p class="soft">hinged learns from labelled examples while it answers predictions, and asks for the labels that teach it most.</p><div class="grid begin">
    ${may("writer") && html`<section class="card"><h3>Bring a file</h3>
      <p>CSV, JSONL or LIBSVM. The page shows a preview, ${may("admin") ? "creates the model, " : ""}and sends the rows.</p>
      <p><a class="button" href="#/data">Choose a file</a></p></section>`}
    ${may("annotator") && html`<section class="card"><h3>Label</h3>
      ${waiting.length ? html`<p>One key per example. The model asks for the labels from which it learns most.</p>
        <ul class="steps">${waiting.map((it) => html`<li key=${it.model}><a class="button" href=${link(it.model, "label")}>${plural(it.pool, "question")} of <bdi>${it.model}</bdi></a></li>`)}</ul>`
      : html`<p>No question waits. A file without labels fills the pool of a model; then you answer with one key per example.</p>`}</section>`}</div>
    ${(serving.length > 0 || may("admin")) && html`<${Fold} name="start-code" title="Send by code" said="curl, Python, JavaScript" shown=${models.length === 0}><${Programs} models=${serving} /></${Fold}>`}`;
}

export function Start() {
  const [found, error, again] = usePolled(() => ask("GET", "overview"), EVERY_MS);
  const asked = (found?.models ?? []).filter((it) => it.state === "serving" && it.examples).slice(0, SUSPECTED_MAX).map((it) => it.model);
  const [suspects] = usePolled(async () => {
    const counts = {};
    for (const model of asked) counts[model] = await suspectsOf(model);
    return counts;
  }, SUSPECTS_MS, [asked.join("/")]);
  if (!found) {
    return error
      ? html`<h1>Models</h1><p class="waiting" role="status">${error.status === 503 ? "The server is starting or compiling its kernels" : error.message}: trying again.</p>`
      : html`<${Instead} title="Models" />`;
  }
  const { models } = found;
  return html`<h1>Models</h1><${Problem} error=${error} again=${again} />
    <div><${Attention} items=${attention(models, suspects ?? {})} /></div>
    <${Models} models=${models} />
    <${Begin} models=${models} />`;
}
