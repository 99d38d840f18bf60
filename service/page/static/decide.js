// How a model decides: its alerts, a threshold for one of two classes, what its decisions cost, its capacities, its
// novelty, and its promise.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { Alerts } from "./alerts.js";
import { ask, may, path } from "./api.js";
import { Chart } from "./charts.js";
import { announce, count, figure, Instead, Name, percent, plural, Problem, usePolled } from "./parts.js";
import { Coverage } from "./promise.js";
import { fold, form } from "./standing.js";

const EVERY_MS = 5000, CURVE_MS = 15_000; // times between two requests for the figures, and for the curve

export function Decide({ model }) {
  const [found, error, again] = usePolled(() => ask("GET", `models/${path(model)}`), EVERY_MS, [model]);
  if (!found) return html`<${Instead} title=${model} error=${error} again=${again} />`;
  const { metrics, configuration, classes, alerts, capacity, novelty } = found, two = classes.length === 2;
  return html`<div><h1>Decisions of <bdi>${model}</bdi></h1><${Problem} error=${error} again=${again} />
    ${alerts && may("annotator") && html`<section class="card" aria-label="Alerts"><h2>Alerts</h2><${Alerts} model=${model} classes=${classes} show=${configuration.show} again=${again} /></section>`}
    ${two && html`<${Threshold} key=${model} model=${model} configuration=${configuration} again=${again} />`}
    ${metrics.decisions && html`<${Spent} decisions=${metrics.decisions} simple=${!two} />`}
    ${capacity && html`<${Capacity} of=${capacity} />`}
    ${novelty && html`<section class="card" aria-label="Novelty"><h2>Novelty</h2>
      <p>An x is novel if its p-value is at most ${figure(configuration.novelty.level)}, which few of the usual x reach. The model asks about a novel x.</p>
      <p>${novelty.compared ? `Each x is compared with a sample of ${count(novelty.compared)} x, of ${count(novelty.seen)} seen.` : `The sample is not yet large enough: ${count(novelty.seen)} x seen.`}
        ${novelty.alarm?.flagged && html` <b class="flag">alarm</b> The inputs have changed: <a href=${fold(model, "happened")}>see what happened</a>.`}</p></section>`}
    ${metrics.promise && html`<section class="card" aria-label="Promise"><h2>Promise</h2><${Coverage} promise=${metrics.promise} /></section>`}
    ${!two && Object.entries(metrics.classes ?? {}).filter(([, it]) => it.long?.curve.length).map(([name, { long: { curve } }]) => html`
      <${PrecisionRecall} key=${name} title=${`Precision of ${name}, by recall in %`} precision=${curve.map((p) => p.precision)} recall=${curve.map((p) => p.recall)} />`)}
    ${!two && !metrics.decisions && html`<p class="empty">${classes.length < 2 ? "Decisions begin when the model knows two classes." : html`
      This model predicts the most probable class. Say in <a href=${form(model, "costs")}>its settings</a> what errors cost, and it decides by the costs.`}</p>`}
    <p class="soft"><a href=${form(model, "costs")}>Costs</a>, <a href=${form(model, "capacity")}>capacities</a> and <a href=${form(model, "promise")}>promises</a> are settings of the model.${!alerts && " With a capacity for a class, each decision for it becomes an alert here, for a person to work off."}</p></div>`;
}

const share = (v) => `${+(100 * v).toFixed(1)} %`;
const times = (v) => figure(+v.toPrecision(3));
const than = (v, one, other) => (v === 1 ? html`a ${one} costs as much as a ${other} one` : html`a ${one} costs ${times(v)} times as much as a ${other} one`);
const costsOf = (t) => (t <= 0.5 ? `1 : ${times((1 - t) / t)}` : `${times(t / (1 - t))} : 1`); // cost of a false decision : cost of a missed example
const nearest = (thresholds, t) => thresholds.reduce((best, v, i) => (Math.abs(v - t) < Math.abs(thresholds[best] - t) ? i : best), 0);

// The cost of an example over the threshold, with a slider, and the figures of the chosen threshold.
function Threshold({ model, configuration, again }) {
  const to = `models/${path(model)}`;
  const [of, setOf] = useState(null), [at, setAt] = useState(null), [error, setError] = useState(null); // at: number of the chosen threshold; null: the present one
  const [newest, problem, fetchAgain] = usePolled(() => ask("GET", `${to}/thresholds${of === null ? "" : `?class=${encodeURIComponent(of)}`}`), CURVE_MS, [model, of]);
  const [history] = usePolled(() => ask("GET", `${to}/history`), CURVE_MS, [model]);
  const kept = useRef(), slider = useRef(), found = newest ?? kept.current; // kept while the curve of the other class is loading, so that no field loses the focus
  kept.current = found;
  const title = html`<h2>Threshold</h2>`;
  if (!found) return html`<section class="card" aria-label="Threshold">${title}${problem ? html`<${Problem} error=${problem} again=${fetchAgain} />` : html`<p class="waiting">Loading…</p>`}</section>`;
  const { class: name, other, curve, rules, costs, threshold } = found;
  if (!curve) return html`<section class="card" aria-label="Threshold">${title}<p class="soft">No data yet. The curve starts with the first labelled examples that the model had predicted.</p></section>`;
  const now = nearest(curve.threshold, threshold ?? 0.5), i = at ?? now, present = i === now && threshold !== null, t = present ? threshold : curve.threshold[i];
  const use = async () => {
    const { [name]: own, [other]: theirs, ...rest } = configuration.costs ?? {};
    try {
      await ask("PATCH", to, { costs: { [name]: { ...own, [other]: curve.missed_cost[i] }, [other]: { ...theirs, [name]: costs.false }, ...rest } });
      announce(`The model decides ${name} from ${share(t)} on`);
      setAt(null);
      setError(null);
      slider.current.focus(); // the button has nothing more to do
    } catch (caught) { setError(caught); }
    fetchAgain();
    again();
  };
  const n = found.examples, since = history && sinceOf(history, n);
  const by = (k) => Object.fromEntries(["right", "false", "missed", "asked", "cost"].map((it) => [it, curve[it][k]]));
  const rows = [[present ? null : "chosen threshold", by(i)], ["present rule", rules.present], ["best threshold", by(curve.cost.indexOf(Math.min(...curve.cost)))], [`always ${other}`, rules.never], [`always ${name}`, rules.always], ["always ask", rules.ask]];
  const x = curve.threshold.map((v) => 100 * v), flat = (v) => x.map(() => v), asks = costs.ask !== null;
  const doubt = (curve.missed_cost[i] * costs.false) / (curve.missed_cost[i] + costs.false); // expected cost of either decision at the threshold
  const limited = configuration.capacity || (asks && configuration.promise);
  const lines = [["by threshold", curve.cost, 1], [`always ${other}`, flat(rules.never.cost), 2, [6, 4]], ...(asks ? [["always ask", flat(costs.ask), 3, [2, 4]]] : [])];
  return html`<section class="card" aria-label="Threshold">${title}
    <p class="row"><label>Decide <select aria-label="Class with the threshold" value=${name} onChange=${(e) => { setOf(e.target.value); setAt(null); }}>${[name, other].sort().map((it) => html`<option value=${it} selected=${it === name}>${it}</option>`)}</select></label>
      <label for="threshold">from a probability of</label> <b class="chosen">${share(t)}</b> <span>on.</span></p>
    <input id="threshold" ref=${slider} type="range" min="0" max=${x.length - 1} step="1" value=${i} aria-valuetext=${`${share(t)}, costs ${costsOf(t)}`} onInput=${(e) => setAt(Number(e.target.value))} />
    <p class="meant"><${Meant} name=${name} n=${n} since=${since} rule=${present ? rules.present : by(i)} present=${present ? null : rules.present} alerts=${configuration.capacity?.[name]} asks=${asks} priced=${configuration.costs ? "at the present costs" : "if each error costs 1"} /></p>
    <p>This threshold corresponds to costs <b>${costsOf(t)}</b>: ${t <= 0.5 ? than((1 - t) / t, html`missed <bdi>${name}</bdi>`, "false") : than(t / (1 - t), html`false <bdi>${name}</bdi>`, "missed")}.
      ${asks && (costs.ask < doubt ? ` Around the threshold the model asks a person, whose look costs ${figure(costs.ask)}.` : ` ${limited ? "By its costs alone, the model never asks" : "The model never asks"}: a person's look costs ${figure(costs.ask)}, and an error in the most doubtful case ${figure(doubt)} on average.`)}
      ${limited && ` ${asks ? "Beyond a limit of a decision, and where a promise cannot be kept, a person is asked too" : "Beyond a capacity the model takes the next best decision"}; the figures here leave that out.`}</p>
    ${may("admin") && html`<p class="row"><button class="main" disabled=${present && configuration.costs} onClick=${use}>Use these costs</button>
      ${!present && html`<button onClick=${() => setAt(null)}>Back to the present threshold</button>`}
      <span class="soft">${!configuration.costs ? html`Drag the slider to the probability from which <bdi>${name}</bdi> shall be decided.` : present ? "This is the present threshold. Drag the slider to see another." : "The model does not learn again, and predicts as before; only its decisions change."}</span></p>`}
    <${Problem} error=${error ?? problem} />
    <h3>The same examples, by each rule</h3>
    <p class="soft">${configuration.costs ? html`The present costs price each rule: a missed <bdi>${name}</bdi> costs ${figure(costs.missed)}, a false one ${figure(costs.false)}${asks ? `, a person's look ${figure(costs.ask)}` : ""}.` : "Each error costs 1, because the model has no costs yet."}</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Rules"><table>
      <thead><tr><th scope="col">Rule</th><th scope="col" class="number">Cost of an example</th><th scope="col" class="number">Decided <bdi>${name}</bdi></th><th scope="col" class="number">Of these right</th><th scope="col" class="number">Missed <bdi>${name}</bdi></th>
        ${asks && html`<th scope="col" class="number">Asked</th>`}</tr></thead>
      <tbody>${rows.filter(([word, rule]) => word && rule).map(([word, rule]) => html`<tr key=${word}><th scope="row"><bdi>${word}</bdi></th><td class="number">${figure(rule.cost)}</td>${[rule.right + rule.false, rule.right, rule.missed, ...(asks ? [rule.asked] : [])].map((v) => html`
        <td class="number">${count(Math.round(n * v))}</td>`)}</tr>`)}</tbody></table></div>
    <div class="grid"><${Chart} title="Cost of an example, by threshold in %" of="Threshold, %" here=${i} marks=${[...(threshold === null ? [] : [{ at: 100 * threshold, text: "now" }]), ...(present ? [] : [{ at: x[i], text: "chosen" }])]}
      data=${[x, ...lines.map(([, values]) => values)]} series=${lines.map(([word, , k, dash]) => ({ name: word, k, dash }))} />
      <${PrecisionRecall} title="Precision, by recall in %" precision=${curve.precision} recall=${curve.recall} at=${curve.recall[i]} mark=${present ? "now" : "chosen"} /></div></section>`;
}

// The time since which the newest n examples were learned. Null if the history has no point yet.
function sinceOf({ curve }, n) {
  const i = curve.examples.findLastIndex((m) => m <= curve.examples.at(-1) - n);
  return curve.at_ms.length ? new Date(curve.at_ms[Math.max(0, i)]).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" }) : null;
}

// The meaning of a rule for the n remembered examples. present: the rule to compare its cost with, or null. priced: by which costs.
function Meant({ name, n, since, rule, present, alerts, asks, priced }) {
  const decided = Math.round(n * (rule.right + rule.false)), cost = n * rule.cost, less = present && n * present.cost - cost;
  return html`Of the last ${plural(Math.round(n), "labelled example")}${since && `, learned since ${since},`} the model would have ${alerts ? html`raised ${plural(decided, "alert")} of <bdi>${name}</bdi>` : html`decided <bdi>${name}</bdi> ${plural(decided, "time")}`},
    ${` ${count(Math.round(n * rule.right))}`} of them rightly, and missed <bdi>${name}</bdi> ${plural(Math.round(n * rule.missed), "time")}${asks && `; it would have asked a person ${plural(Math.round(n * rule.asked), "time")}`}.
    <b> Cost: ${times(cost)}</b> ${priced}${present && (Math.abs(less) <= 1e-9 * Math.abs(cost) ? ", as much as the present rule" : `, ${times(Math.abs(less))} ${less < 0 ? "more" : "less"} than the present rule`)}.`;
}

// at: the recall with a mark. No mark stands where nothing is decided, because there is no precision.
function PrecisionRecall({ title, precision, recall, at = null, mark }) {
  const points = new Map(recall.map((r, i) => [r, precision[i]]).filter(([r, p]) => r !== null && p !== null).sort(([a], [b]) => a - b));
  const x = [...points.keys()], here = points.has(at) ? x.indexOf(at) : null;
  return html`<${Chart} title=${title} of="Recall, %" asPercent=${true} here=${here} marks=${here === null ? [] : [{ at: 100 * at, text: mark }]}
    data=${[x.map((r) => 100 * r), [...points.values()]]} series=${[{ name: "precision", k: 1 }]} />`;
}

// The cost of the decisions since the costs were set, each taken before its label was known. simple: whether to compare
// with simple rules.
function Spent({ decisions: { examples, asked, cost, always, ask_all }, simple }) {
  const rows = [["this model", cost], ...Object.entries(always).map(([name, v]) => [`always ${name}`, v]), ...(ask_all === undefined ? [] : [["always ask", ask_all]])];
  return html`<section class="card" aria-label="Since the costs were set"><h2>Since the costs were set</h2>
    ${cost === null ? html`<p class="soft">No decision to judge yet: labelled examples must come first.</p>` : html`
    <p>${plural(examples, "labelled example")} decided, each before its label was known: <b>${figure(cost)}</b> an example${ask_all === undefined ? "" : `; a person would have looked at ${percent(asked)}`}.</p>
    ${simple && html`<div class="scroll" tabindex="0" role="group" aria-label="Cost of an example by rule"><table><thead><tr><th scope="col">Rule</th><th scope="col" class="number">Cost of an example</th></tr></thead>
      <tbody>${rows.map(([word, v]) => html`<tr key=${word}><th scope="row"><bdi>${word}</bdi></th><td class="number">${figure(v)}</td></tr>`)}</tbody></table></div>`}`}</section>`;
}

const Capacity = ({ of }) => html`<section class="card" aria-label="Capacity"><h2>Capacity</h2><div class="scroll" tabindex="0" role="group" aria-label="Capacity of each decision"><table>
  <thead><tr><th scope="col">Decision</th><th scope="col" class="number">At most</th><th scope="col" class="number">Taken</th><th scope="col" class="number">Refused</th><th scope="col">This period ends</th></tr></thead>
  <tbody>${Object.entries(of).map(([decision, { most, taken, refused, until }]) => html`<tr key=${decision}><th scope="row"><${Name} of=${decision} cut=${40} /></th><td class="number">${count(most)}</td>
    <td class="number">${count(taken)}</td><td class="number">${count(refused)}</td><td>${new Date(until).toLocaleString("en")}</td></tr>`)}</tbody></table></div></section>`;
