// The view of one model: how good it is, what to do next, and below, folded, the details.

import { html, useState } from "./vendor/htm-preact.js";
import { Challengers } from "./challengers.js";
import { Chart, joined, Reliability } from "./charts.js";
import { ByClass, Confusion } from "./classes.js";
import { Code } from "./code.js";
import { Columns } from "./columns.js";
import { Configuration } from "./configuration.js";
import { Happened, near } from "./happened.js";
import { useLive } from "./live.js";
import { Machine } from "./machine.js";
import { count, figure, Fold, Instead, link, percent, plural, Problem, usePolled, Warnings } from "./parts.js";
import { Progress } from "./retraining.js";
import { Segments } from "./segments.js";
import { standing, steps, suspectsOf, usualClass } from "./standing.js";

const SOURCES = ["streamed", "queried", "random"];
const GOALS = { balanced: "Balanced accuracy", cost: "Cost of a decision" }; // goals with a figure of their own
const SUSPECTS_MS = 30_000; // time between two requests for suspects

// fold, part: the fold that the address names, and the part of the settings; the view opens both.
export function Model({ model, fold, part }) {
  const [{ figures, history, shadows, error, open }, again] = useLive(model);
  const [suspects] = usePolled(() => figures && suspectsOf(model, figures), SUSPECTS_MS, [model, Boolean(figures)]);
  const [overTime, setOverTime] = useState(false);
  if (!figures || !history) return html`<${Instead} title=${model} error=${error} again=${again} />`;
  const { metrics } = figures, inputs = figures.novelty?.alarm, { curve } = history, rivals = Object.keys(shadows?.shadows ?? {});
  const x = overTime ? curve.at_ms.map((ms) => ms / 1000) : curve.examples;
  const marks = [...history.marks, ...history.snapshots.map((position) => ({ text: "snapshot", position, ...near(curve, position) }))]
    .map((m) => ({ ...m, text: m.text.split(":")[0], at: overTime ? m.at_ms / 1000 : m.examples }));
  const more = { marks, time: overTime }, usual = usualClass(metrics.confusion);
  const sources = SOURCES.filter((name) => curve[name].some((v) => v !== null));
  const goal = curve.goal.some((v) => v !== null) && figures.configuration.goal, always = Object.entries(metrics.decisions?.always ?? {}).sort((a, b) => a[1] - b[1])[0];
  const base = goal !== "cost" ? usual && ["usual class, now", goal ? 1 / metrics.confusion.window.filter((row) => row.some(Boolean)).length : usual.share] : always && [`always ${always[0]}, since the costs were set`, always[1]];
  const said = standing({ figures, history, suspects });
  return html`<div>
    <div class="row"><h1><bdi>${model}</bdi></h1>
      <span class="state ${figures.state}">${figures.state}</span>
      <span class="soft"><b class="learned">${count(figures.examples)}</b> examples learned</span>
      <span class="soft">${open ? "live" : "not live: refreshed every 15 s"}</span>
      ${metrics.drift.flagged && html`<span class="flag">drift</span>`}
      ${metrics.alarm?.flagged && html`<span class="flag">alarm</span>`}
      ${inputs?.flagged && html`<span class="flag">input alarm</span>`}
      <span class="room"></span>
      <label class="tick"><input type="checkbox" checked=${overTime} onChange=${(e) => setOverTime(e.target.checked)} /> Plot over time</label></div>
    <${Problem} error=${error ?? (figures.error && { message: figures.error })} again=${again} />
    <section class="card standing" aria-label="State"><p><b>${said.first}</b>${[said.more, ...said.rest].join("; ")}.</p>
      <ul class="steps" aria-label="Next steps">${steps({ model, figures, suspects, shadows }).map(({ text, href }, i) => html`
        <li key=${text}><a class=${`button ${i ? "" : "main"}`} href=${href}>${text}</a></li>`)}</ul></section>
    <div><${Warnings} of=${[...(metrics.warning ? [metrics.warning] : []), ...(figures.features?.warnings ?? [])]} /></div>
    <div><${Jobs} jobs=${figures.jobs} again=${again} /></div>
    <div class="grid"><${Chart} title=${goal ? GOALS[goal] : "Accuracy"} asPercent=${goal !== "cost"} ...${more} data=${[x, goal ? curve.goal : curve.accuracy, ...(base ? [x.map(() => base[1])] : [])]}
      series=${[{ name: "newest 1,000", k: 1 }, ...(base ? [{ name: base[0], k: 2, dash: [6, 4] }] : [])]} /></div>
    <${Fold} name="classes" title="By class" wanted=${fold} said=${figures.classes.length ? plural(figures.classes.length, "label") : ""}>
      <${Confusion} confusion=${metrics.confusion} /><${ByClass} figures=${metrics.classes} classes=${figures.classes} />
      <p class="soft"><a href=${link(model, "decide")}>Thresholds, curves and costs of decisions</a></p></${Fold}>
    ${metrics.segments && html`<${Fold} name="segments" title="Segments" wanted=${fold} said=${Object.keys(metrics.segments).join(", ")}><${Segments} segments=${metrics.segments} /></${Fold}>`}
    <${Fold} name="columns" title="Columns" wanted=${fold}><${Columns} model=${model} names=${figures.features?.names ?? figures.configuration.features.dim} /></${Fold}>
    <${Fold} name="probabilities" title="Probabilities" wanted=${fold} said=${metrics.window.log_loss === null ? "" : `log loss ${figure(metrics.window.log_loss)}`}>
      <div class="grid"><${Chart} title="Log loss" data=${[x, curve.log_loss]} ...${more} series=${[{ name: "newest 1,000", k: 1 }]} /><${Reliability} bins=${metrics.reliability} /></div></${Fold}>
    <${Fold} name="happened" title="Drift and events" wanted=${fold} said=${history.marks.length ? plural(history.marks.length, "event") : ""}>
      <${Happened} model=${model} history=${history} rivals=${rivals} drifted=${metrics.drift.flagged || metrics.alarm?.flagged} changed=${inputs?.flagged} again=${again} />
      <${Chart} title="Accuracy by source" asPercent=${true} ...${more} data=${[x, curve.fading, ...(sources.length > 1 ? sources : []).map((name) => curve[name])]}
        series=${["fading", ...(sources.length > 1 ? sources : [])].map((name, i) => ({ name, k: i + 1 }))} />
      ${metrics.alarm && history.alarm && html`<${AlarmPath} title="How close to an alarm" path=${history.alarm} level=${metrics.alarm.level}
        ...${more} at=${(n) => (overTime ? near(curve, n, "examples").at_ms / 1000 : n)} />`}
      ${inputs && history.input_alarm && html`<${AlarmPath} title="How close to an alarm about inputs" path=${history.input_alarm} level=${inputs.level} of="x seen" />`}</${Fold}>
    ${rivals.length > 0 && html`<${Fold} name="challengers" title="Challengers" wanted=${fold} shown=${true} said=${plural(rivals.length, "challenger")}>
      <${Rivals} history=${history} figure=${goal ? "goal" : "accuracy"} asPercent=${goal !== "cost"} overTime=${overTime} more=${more} /><${Challengers} model=${model} shadows=${shadows} again=${again} /></${Fold}>`}
    <${Fold} name="settings" title="Settings" wanted=${fold}><${Configuration} model=${model} part=${part} classes=${figures.classes} cost=${figures} configuration=${figures.configuration} changed=${again} /></${Fold}>
    <${Fold} name="machine" title="Machine" wanted=${fold} said=${`${count(figures.support_vectors)} support vectors, ${(figures.memory_bytes / 2 ** 20).toFixed(1)} MiB`}>
      <${Machine} figures=${figures} curve=${{ ...curve, x }} more=${more} /></${Fold}>
    <${Fold} name="code" title="Send by code" wanted=${fold} shown=${!figures.examples}><${Code} model=${model} /></${Fold}></div>`;
}

// How close the model came to an alarm: the decimal logarithm of the martingale, and of the value that causes an alarm.
function AlarmPath({ path, level, at = (n) => n, ...more }) {
  return html`<${Chart} ...${more} data=${[path.examples.map(at), path.value, path.value.map(() => -Math.log10(level))]}
    series=${[{ name: "martingale, log10", k: 1 }, { name: "alarm", k: 2, dash: [6, 4] }]} />`;
}

// The curves of the champion and of the challengers that have learned something. figure: of the curves.
function Rivals({ history, figure, asPercent, overTime, more }) {
  const x = overTime ? "time" : "examples", timed = (c) => ({ ...c, time: c.at_ms.map((ms) => ms / 1000), y: c[figure] });
  const rivals = Object.entries(history.shadows).filter(([, c]) => c.position.length).map(([name, c]) => ({ name, ...timed(c) }));
  return rivals.length > 0 && html`<${Chart} title="Champion and challengers" asPercent=${asPercent} ...${more} data=${joined([timed(history.curve), ...rivals], x)}
    series=${[{ name: "champion", k: 1 }, ...rivals.map((r, i) => ({ name: r.name, k: (i % 5) + 2 }))]} />`;
}

const Jobs = ({ jobs, again }) => jobs.length > 0 && html`<section class="card" aria-label="Jobs"><h2>Jobs</h2>
  ${jobs.map(({ job }) => html`<${Progress} key=${job} job=${job} ended=${again}>The model serves meanwhile.</${Progress}>`)}</section>`;
