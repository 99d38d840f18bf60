// The machine behind a model: support vectors, duality gap, certificate, memory, rates, and the race of settings.

import { html } from "./vendor/htm-preact.js";
import { Chart } from "./charts.js";
import { count, figure, percent } from "./parts.js";

const CERTIFICATE = { dual: "dual objective", primal: "primal objective", gap: "duality gap", kkt_violation: "KKT violation" };

const speeds = ({ examples, at_ms }) => examples.map((n, i) => {
  let j = i - 1;
  while (j > 0 && at_ms[i] - at_ms[j] < 500 && i - j < 20) j--;
  return j < 0 || at_ms[i] <= at_ms[j] ? null : (1000 * (n - examples[j])) / (at_ms[i] - at_ms[j]);
});

// curve: a curve with the column `x`.
export function Machine({ figures, curve, more }) {
  return html`<dl class="facts">${[
      ["support vectors", count(figures.support_vectors)], ["points", count(figures.points)], ["duality gap", figure(figures.duality_gap)],
      ["pending predictions", count(figures.pending)], ["memory", `${(figures.memory_bytes / 2 ** 20).toFixed(1)} MiB`], ["position in the log", count(figures.position)],
      ...(figures.novelty ? [["novelty: x seen, compared with", `${count(figures.novelty.seen)}, ${count(figures.novelty.compared)}`]] : []),
    ].map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <div class="grid">
      <${Chart} title="Points" data=${[curve.x, curve.points, curve.support_vectors]} ...${more} series=${[{ name: "points", k: 1 }, { name: "support vectors", k: 3 }]} />
      <${Chart} title="Duality gap" data=${[curve.x, curve.gap]} ...${more} series=${[{ name: "gap", k: 1 }]} />
      <${Chart} title="Examples per second" data=${[curve.x, speeds(curve)]} ...${more} series=${[{ name: "learned", k: 1 }]} />
      <section class="card"><h3>Certificate</h3><table><tbody>${Object.entries(figures.certificate).map(([name, value]) => html`
        <tr><th scope="row">${CERTIFICATE[name] ?? name.replaceAll("_", " ")}</th><td class="number">${figure(value)}</td></tr>`)}</tbody></table></section>
    </div>
    ${figures.arms && html`<${Race} arms=${figures.arms} />`}`;
}

function Race({ arms }) {
  return html`<section><h3>Race</h3><div class="scroll" tabindex="0" role="group" aria-label="Arms of the race"><table>
    <thead><tr><th>solver</th><th>kernel</th><th>C</th><th>gamma</th><th>half-life</th><th>${arms[0].counts} (fading)</th><th>points</th><th>share</th><td></td></tr></thead>
    <tbody>${arms.map((arm) => html`<tr>
      <td>${arm.solver}</td><td>${arm.kernel}</td><td class="number">${figure(arm.C)}</td><td class="number">${arm.gamma === null ? "" : figure(arm.gamma)}</td>
      <td class="number">${arm.half_life === null ? "none" : count(arm.half_life)}</td>
      <td class="number">${percent(arm.accuracy)}</td><td class="number">${count(arm.points)}</td><td class="number">${percent(arm.share)}</td>
      <td>${arm.leads ? "leads" : ""}</td></tr>`)}</tbody></table></div></section>`;
}
