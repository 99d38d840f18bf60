// The champion and its challengers. An admin can promote a challenger; the page first says which of both is better.

import { html, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { spoken, words } from "./controls.js";
import { amount, fold } from "./standing.js";
import { announce, count, figure, Name, percent, Problem } from "./parts.js";

// The parts in which a challenger's configuration differs from the champion's, in words.
export const differences = (own, champion) => [...new Set([...Object.keys(own), ...Object.keys(champion)])]
  .filter((part) => JSON.stringify(own[part]) !== JSON.stringify(champion[part]))
  .map((part) => `${spoken(part)} ${words(own[part])} instead of ${words(champion[part])}`.slice(0, 160)).join("; ");

const FIGURES = { accuracy: "was right in", balanced_accuracy: "was right, each class counting the same, in", cost: "decided at a cost per example of" };
const signed = (of, v) => (v < 0 ? "\u2212" : "+") + amount(of, Math.abs(v));

// How the challenger did beside the champion, in words.
export function comparison({ compared }) {
  if (!compared) return "No prediction of both can be compared yet.";
  const { figure: of, examples, challenger, champion, interval: [low, high] } = compared, spent = of === "cost";
  const verdict = low > 0 ? "The challenger is better" : high < 0 ? "The challenger is worse" : "Chance may explain the difference";
  const [mine, other] = [challenger, champion].map((v) => `${amount(of, v)}${spent ? "" : " %"}`);
  return `On the same ${count(examples)} examples the challenger ${FIGURES[of]} ${mine}, the champion ${spent ? "of" : "in"} ${other}. ${verdict}: ${signed(of, low)} to ${signed(of, high)} ${spent ? "saved per example" : "points"} (95 % interval).`;
}

export function Challengers({ model, shadows, again }) {
  const [error, setError] = useState(null);
  const act = async (name, question, method, to) => {
    if (!confirm(question)) return;
    try {
      await ask(method, `models/${path(model)}/shadows/${path(name)}${to}`);
      announce(`${name}: done`);
      setError(null);
      if (to) location.hash = fold(model, "happened"); // where the promotion can be taken back
    } catch (caught) { setError(caught); }
    again();
  };
  const { champion } = shadows, rows = [["champion", champion], ...Object.entries(shadows.shadows)];
  return html`<section><${Problem} error=${error} />
    <div class="scroll" tabindex="0" role="group" aria-label="Champion and challengers"><table class="rivals"><thead><tr><th scope="col">Name</th><th scope="col">Difference</th><th scope="col" class="number">Examples</th>
      <th scope="col" class="number">Accuracy</th><th scope="col" class="number">Log loss</th><th scope="col" class="number">Support vectors</th><th scope="col">${may("admin") ? "Actions" : "State"}</th></tr></thead>
    <tbody>${rows.map(([name, it]) => html`<tr key=${name}><th scope="row"><${Name} of=${name} /></th><td><bdi>${it === champion ? "" : differences(it.configuration, champion.configuration)}</bdi></td>
      <td class="number">${count(it.examples)}</td><td class="number">${percent(it.metrics.accuracy_window)}</td><td class="number">${figure(it.metrics.window.log_loss)}</td>
      <td class="number">${count(it.certificate.support_vectors)}</td>
      <td>${it.stopped ? html`<span class="problem">${it.stopped}</span>` : it !== champion && may("admin") && html`
        <button onClick=${() => act(name, `Promote ${name}? ${comparison(it)}`, "POST", "/promote")}>Promote</button>
        <button class="plain danger" onClick=${() => act(name, `Discard the challenger ${name}?`, "DELETE", "")}>Discard</button>`}</td></tr>`)}</tbody></table></div>
    ${Object.entries(shadows.shadows).map(([name, it]) => !it.stopped && html`<p class="soft" key=${name}><${Name} of=${name} />: ${comparison(it)}</p>`)}</section>`;
}
