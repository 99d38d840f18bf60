// The view of one model: its figures, curves with marks, challengers, race, configuration and jobs.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, follow, may, path } from "./api.js";
import { Chart, joined, Reliability } from "./charts.js";
import { Configuration } from "./configuration.js";
import { announce, Bar, count, figure, Instead, Name, percent, Problem, Warnings } from "./parts.js";
import { Coverage } from "./promise.js";

const SOURCES = ["streamed", "queried", "random"];
const CERTIFICATE = { dual: "dual objective", primal: "primal objective", gap: "duality gap", kkt_violation: "KKT violation" };

// The figures and history of a model. The view refreshes the figures and the history while the model changes, with one
// request of each at a time.
function useLive(model) {
  const [live, setLive] = useState({ figures: null, history: null, shadows: null, error: null, open: false });
  const again = useRef(() => {});
  useEffect(() => {
    let ended = false, busy = false, dirty = false, history = null;
    const read = async () => {
      if (busy || document.hidden) { dirty = true; return; }
      busy = true;
      dirty = false;
      try {
        const to = `models/${path(model)}`;
        const from = history?.curve.position.at(-1) ?? 0;
        const [figures, news] = await Promise.all([ask("GET", to), ask("GET", `${to}/history?from=${from}`)]);
        const shadows = Object.keys(news.shadows).length || history?.challenged ? await ask("GET", `${to}/shadows`) : null;
        // Each refresh adds one point, for the present. Fetch the whole history again if the curve has grown too long,
        // if the server has thinned it, or after a rollback.
        history = history && history.curve.position.length < 2 * news.points_max && news.stride === history.stride && news.position >= history.position && !undone(history, news)
          ? grown(history, news) : from ? await ask("GET", `${to}/history`) : news;
        history.challenged = Object.keys(history.shadows).length > 0;
        if (!ended) setLive((was) => ({ ...was, figures, history, shadows, error: null }));
      } catch (error) {
        if (!ended) setLive((was) => ({ ...was, error }));
      }
      busy = false;
      if (dirty && !ended) setTimeout(read, 300);
    };
    again.current = read;
    read();
    const seen = () => { if (!document.hidden) read(); };
    document.addEventListener("visibilitychange", seen);
    const slow = setInterval(read, 15_000); // this is needed if the event stream cannot be opened
    const end = follow(model, (kinds) => {
      if (kinds.has("drift")) announce("drift: the error rate of the stream rose");
      if (kinds.has("alarm")) announce("alarm: errors have become more frequent");
      read();
    }, (open) => setLive((was) => ({ ...was, open })));
    return () => { ended = true; end(); clearInterval(slow); document.removeEventListener("visibilitychange", seen); };
  }, [model]);
  return [live, () => again.current()];
}

const undone = (history, news) => news.marks.filter((m) => m.kind === "rolled_back").length !== history.marks.filter((m) => m.kind === "rolled_back").length;

function grown(history, news) {
  const add = (curve, more) => (curve
    ? Object.fromEntries(Object.keys(more).map((name) => [name, curve[name].concat(more[name])])) : more);
  const after = (curve) => curve?.position.at(-1) ?? 0;
  const behind = (more, position) => {
    const first = more.position.findIndex((p) => p > position);
    return Object.fromEntries(Object.keys(more).map((name) => [name, first < 0 ? [] : more[name].slice(first)]));
  };
  const shadows = Object.fromEntries(Object.entries(news.shadows).map(([name, more]) => [
    name, add(history.shadows[name], behind(more, after(history.shadows[name])))]));
  return { ...news, curve: add(history.curve, behind(news.curve, after(history.curve))), shadows };
}

export function Model({ model }) {
  const [{ figures, history, shadows, error, open }, again] = useLive(model);
  const [overTime, setOverTime] = useState(false);
  if (!figures || !history) return html`<${Instead} title=${model} error=${error} again=${again} />`;
  const { metrics } = figures;
  return html`<div>
    <div class="row"><h1><bdi>${model}</bdi></h1>
      <span class="state ${figures.state}">${figures.state}</span>
      <span class="soft">${open ? "live" : "not live: refreshed every 15 s"}</span>
      ${metrics.drift.flagged && html`<span class="flag">drift at example ${count(metrics.drift.last_at)}</span>`}
      ${metrics.alarm?.flagged && html`<span class="flag">alarm at example ${count(metrics.alarm.last_at)}</span>`}
      <span class="room"></span>
      <label class="tick"><input type="checkbox" checked=${overTime} onChange=${(e) => setOverTime(e.target.checked)} /> Plot over time</label></div>
    <${Problem} error=${error ?? (figures.error && { message: figures.error })} again=${again} />
    <dl class="facts card">${[
      ["examples", count(figures.examples)], ["accuracy, newest 1,000", percent(metrics.accuracy_window)],
      ["log loss", figure(metrics.window.log_loss)], ["support vectors", count(figures.support_vectors)], ["points", count(figures.points)],
      ["duality gap", figure(figures.duality_gap)], ["pool", count(figures.pool.size)], ["pending predictions", count(figures.pending)],
      ["memory", `${(figures.memory_bytes / 2 ** 20).toFixed(1)} MiB`],
    ].map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <div><${Warnings} of=${figures.features?.warnings ?? []} /></div>
    <div><${Jobs} jobs=${figures.jobs} /></div>
    <${Charts} history=${history} overTime=${overTime} />
    <div>${shadows && html`<${Challengers} model=${model} shadows=${shadows} again=${again} />`}</div>
    <div class="grid">
      <${Confusion} confusion=${metrics.confusion} />
      <${Reliability} bins=${metrics.reliability} />
      <${Coverage} promise=${metrics.promise} />
      <section class="card"><h2>Certificate</h2><table><tbody>${Object.entries(figures.certificate).map(([name, value]) => html`
        <tr><th scope="row">${CERTIFICATE[name] ?? name.replaceAll("_", " ")}</th><td class="number">${figure(value)}</td></tr>`)}</tbody></table></section>
      ${figures.arms && html`<${Race} arms=${figures.arms} />`}
      <${Happened} history=${history} />
    </div>
    <${Configuration} model=${model} configuration=${figures.configuration} changed=${again} /></div>`;
}

function Race({ arms }) {
  return html`<section class="card"><h2>Race</h2><div class="scroll" tabindex="0" role="group" aria-label="Arms of the race"><table>
    <thead><tr><th>solver</th><th>kernel</th><th>C</th><th>gamma</th><th>half-life</th><th>accuracy (fading)</th><th>points</th><td></td></tr></thead>
    <tbody>${arms.map((arm) => html`<tr>
      <td>${arm.solver}</td><td>${arm.kernel}</td><td class="number">${figure(arm.C)}</td><td class="number">${arm.gamma === null ? "" : figure(arm.gamma)}</td>
      <td class="number">${arm.half_life === null ? "none" : count(arm.half_life)}</td>
      <td class="number">${percent(arm.accuracy)}</td><td class="number">${count(arm.points)}</td>
      <td>${arm.leads ? "leads" : ""}</td></tr>`)}</tbody></table></div></section>`;
}

function Charts({ history, overTime }) {
  const { curve, shadows } = history, x = overTime ? "time" : "examples";
  const timed = (c) => ({ ...c, time: c.at_ms.map((ms) => ms / 1000) });
  const own = timed(curve);
  const data = (names) => [own[x], ...names.map((name) => own[name])];
  const marks = [...history.marks, ...history.snapshots.map((position) => ({ kind: "snapshot", position, ...near(curve, position) }))]
    .map((m) => ({ kind: m.kind, at: overTime ? m.at_ms / 1000 : m.examples }));
  const sources = SOURCES.filter((name) => curve[name].some((v) => v !== null));
  const accuracies = ["accuracy", "fading", ...(sources.length > 1 ? sources : [])];
  const named = { accuracy: "newest 1,000", fading: "fading" };
  const rivals = Object.entries(shadows).filter(([, c]) => c.position.length).map(([name, c]) => ({ name, ...timed(c), y: c.accuracy }));
  const more = { marks, time: overTime };
  return html`<div class="grid">
    <${Chart} title="Accuracy" data=${data(accuracies)} asPercent=${true} ...${more}
      series=${accuracies.map((name, i) => ({ name: named[name] ?? name, k: i + 1 }))} />
    ${rivals.length > 0 && html`<${Chart} title="Champion and challengers" asPercent=${true} ...${more}
      data=${joined([{ ...own, y: own.accuracy }, ...rivals], x)}
      series=${[{ name: "champion", k: 1 }, ...rivals.map((r, i) => ({ name: r.name, k: (i % 5) + 2 }))]} />`}
    <${Chart} title="Log loss" data=${data(["log_loss"])} ...${more} series=${[{ name: "newest 1,000", k: 1 }]} />
    <${Chart} title="Points" data=${data(["support_vectors", "points"])} ...${more}
      series=${[{ name: "support vectors", k: 1 }, { name: "points", k: 2 }]} />
    <${Chart} title="Duality gap" data=${data(["gap"])} ...${more} series=${[{ name: "gap", k: 1 }]} />
    <${Chart} title="Examples per second" data=${[own[x], speeds(curve)]} ...${more} series=${[{ name: "learned", k: 1 }]} />
  </div>`;
}

// The number of examples and the time of the first point on the curve at or after a position of the log.
function near(curve, position) {
  let i = curve.position.findIndex((p) => p >= position);
  if (i < 0) i = curve.position.length - 1;
  return { examples: curve.examples[i] ?? 0, at_ms: curve.at_ms[i] ?? 0 };
}

const speeds = ({ examples, at_ms }) => examples.map((n, i) => {
  let j = i - 1;
  while (j > 0 && at_ms[i] - at_ms[j] < 500 && i - j < 20) j--;
  return j < 0 || at_ms[i] <= at_ms[j] ? null : (1000 * (n - examples[j])) / (at_ms[i] - at_ms[j]);
});

const Jobs = ({ jobs }) => jobs.length > 0 && html`<section class="card"><h2>Jobs</h2>
  ${jobs.map((job) => html`<div class="row" key=${job.job}><span>${job.kind === "shadow" ? "training a challenger" : job.kind}</span>
    <${Bar} value=${job.progress} label=${`progress of ${job.kind}`} /><span class="number">${percent(job.progress, 0)}</span></div>`)}</section>`;

function Confusion({ confusion }) {
  if (!confusion || !confusion.classes.length) return html`<section class="card"><h2>Confusion matrix</h2><p class="soft">No matrix yet. It starts with the first labelled examples, for up to 32 classes.</p></section>`;
  const { classes, window: cells } = confusion, most = Math.max(1, ...cells.flat());
  return html`<section class="card"><h2>Confusion matrix <small>newest 1,000 examples</small></h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Confusion matrix"><table class="confusion">
    <thead><tr><th scope="col">actual \\ predicted</th>${classes.map((c) => html`<th scope="col"><${Name} of=${c} cut=${12} /></th>`)}</tr></thead>
    <tbody>${cells.map((row, i) => html`<tr><th scope="row"><${Name} of=${classes[i]} cut=${12} /></th>${row.map((n, j) => html`
      <td class=${i === j ? "right" : ""} style=${{ background: n ? `color-mix(in srgb, var(${i === j ? "--c1" : "--bad"}) ${Math.round(8 + 27 * Math.sqrt(n / most))}%, transparent)` : "" }}>${n || ""}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

const Happened = ({ history }) => html`<section class="card"><h2>Events</h2>
  ${history.marks.length === 0 ? html`<p class="soft">No events yet. Drifts, finishing steps and swaps appear here.</p>` : html`<div class="behind" tabindex="0" role="group" aria-label="Events"><table>
    <thead><tr><th scope="col">Event</th><th scope="col" class="number">Example</th><th scope="col" class="number">Position</th><th scope="col">Time</th></tr></thead>
    <tbody>${history.marks.slice(-100).reverse().map((m) => html`<tr><th scope="row">${m.kind.replace("_", " ")}</th><td class="number">${count(m.examples)}</td>
      <td class="number">${count(m.position)}</td><td>${new Date(m.at_ms).toLocaleString("en")}</td></tr>`)}</tbody></table></div>`}
  <p class="soft">${history.snapshots.length ? `${history.snapshots.length > 1 ? "Snapshots at positions" : "Snapshot at position"} ${history.snapshots.map(count).join(" and ")}.` : "No snapshot yet."}</p></section>`;

function Challengers({ model, shadows, again }) {
  const [error, setError] = useState(null);
  const act = async (name, verb, method, to) => {
    if (!confirm(`${verb} the challenger ${name}?`)) return;
    try {
      await ask(method, `models/${path(model)}/shadows/${path(name)}${to}`);
      announce(`${name}: done`);
      setError(null);
    } catch (caught) { setError(caught); }
    again();
  };
  const rows = [["champion", shadows.champion], ...Object.entries(shadows.shadows)];
  return html`<section class="card"><h2>Champion and challengers</h2><${Problem} error=${error} />
    <div class="scroll" tabindex="0" role="group" aria-label="Champion and challengers"><table><thead><tr><th scope="col">Name</th><th scope="col">Solver</th><th scope="col" class="number">Examples</th>
      <th scope="col" class="number">Accuracy</th><th scope="col" class="number">Log loss</th><th scope="col" class="number">Support vectors</th><th scope="col">${may("admin") ? "Actions" : "State"}</th></tr></thead>
    <tbody>${rows.map(([name, it]) => html`<tr key=${name}><th scope="row"><${Name} of=${name} /></th><td>${it.configuration.solver}</td>
      <td class="number">${count(it.examples)}</td><td class="number">${percent(it.metrics.accuracy_window)}</td><td class="number">${figure(it.metrics.window.log_loss)}</td>
      <td class="number">${count(it.certificate.support_vectors)}</td>
      <td>${it.stopped ? html`<span class="problem">${it.stopped}</span>` : it !== shadows.champion && may("admin") && html`
        <button onClick=${() => act(name, "Promote", "POST", "/promote")}>Promote</button> <button class="plain danger" onClick=${() => act(name, "Discard", "DELETE", "")}>Discard</button>`}</td></tr>`)}</tbody></table></div></section>`;
}
