// The overview: every model that the key may see, refreshed once a second.

import { html } from "./vendor/htm-preact.js";
import { ask, may } from "./api.js";
import { count, Instead, link, percent, Problem, usePolled } from "./parts.js";

const EVERY_MS = 1000;
const WIDTH = 120, HEIGHT = 28; // pixels of a small curve

// A small curve without axes; values: numbers from 0 to 1, or null.
export function Spark({ values, label }) {
  const known = values.map((v, i) => [i, v]).filter(([, v]) => v !== null);
  if (known.length < 2) return html`<svg class="spark" width=${WIDTH} height=${HEIGHT} aria-hidden="true"></svg>`;
  const least = Math.min(...known.map(([, v]) => v)), most = Math.max(...known.map(([, v]) => v));
  const span = Math.max(most - least, 0.02);
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
    <td class="number">${it.points === undefined ? "" : count(it.points)}</td>
    <td>${it.drifted ? html`<span class="flag">drift</span>` : it.drifts ? html`<small>${it.drifts} earlier</small>` : ""}</td>
    <td class="number">${it.queue === undefined ? "" : count(it.queue)}</td>
    <td class="number">${it.pool ? (may("annotator") ? html`<a href=${link(it.model, "label")}>${count(it.pool)} to label</a>` : count(it.pool)) : it.pool === 0 ? "0" : ""}</td>
  </tr>`;
}

export function Overview() {
  const [found, error, again] = usePolled(() => ask("GET", "overview"), EVERY_MS);
  if (!found) {
    return error
      ? html`<h1>Models</h1><p class="waiting" role="status">${error.status === 503 ? "The server is starting or compiling its kernels" : error.message}: trying again.</p>`
      : html`<${Instead} title="Models" />`;
  }
  const models = found.models;
  return html`<h1>Models</h1>
    <${Problem} error=${error} again=${again} />
    ${models.length ? html`<div class="scroll" tabindex="0" role="group" aria-label="Models"><table class="models">
      <thead><tr><th scope="col">Model</th><th scope="col">State</th><th scope="col" class="number">Examples</th>
        <th scope="col" class="number" title="Over the newest 1,000 predictions">Accuracy</th><th scope="col">Accuracy over time</th><th scope="col" class="number">Points</th>
        <th scope="col">Drift</th><th scope="col" class="number">Queue</th><th scope="col" class="number">Pool</th></tr></thead>
      <tbody>${models.map((it) => html`<${Row} key=${it.model} it=${it} />`)}</tbody></table></div>`
    : html`<div class="empty"><p>There is no model yet.</p>${may("admin")
        ? html`<p><a class="button main" href="#/data">Import data</a> creates a model from a CSV, JSONL or LIBSVM file.</p>` : html`<p>An admin can create a model.</p>`}</div>`}`;
}
