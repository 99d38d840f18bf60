// Alerts: decisions for a class that the server takes only so often. A person looks at each, and says what it was.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { usePressed } from "./keys.js";
import { Example } from "./example.js";
import { announce, count, figure, Instead, percent, Problem, REASONS, same, shownLabel, usePolled } from "./parts.js";

const SHOWN = 20; // number of alerts fetched at a time
const LABELS_MAX = 4; // with more classes, the page offers no labels
const KEYS = { done: "d", undo: "u", next: "n", previous: "p" }; // a label has its number as its key

// classes: the labels of the model. again: fetches the model's figures again.
export function Alerts({ model, classes, show, again }) {
  const to = `models/${path(model)}`;
  const [order, setOrder] = useState("best");
  const [found, problem, fetchAgain] = usePolled(() => ask("GET", `${to}/alerts?n=${SHOWN}&order=${order}`), 15_000, [model, order]);
  const [error, setError] = useState(null);
  const [at, setAt] = useState(0); // number of the alert for which the keys are
  const [settled, setSettled] = useState([]); // ids of alerts that the server may still list
  const [last, setLast] = useState(null); // {id, label}: the alert that was worked off last
  const table = useRef();
  const said = last && (last.label === undefined ? "is worked off" : `was ${shownLabel(last.label)}`);
  useEffect(() => { if (last) announce(`${last.id.slice(0, 80)} ${said}`); }, [last]);
  const alerts = (found?.alerts ?? []).filter(({ id }) => !settled.includes(id)), labels = classes.length <= LABELS_MAX ? classes : [];
  const active = Math.max(0, Math.min(at, alerts.length - 1)), now = alerts[active];
  const [example] = usePolled(() => now && ask("GET", `${to}/examples/${path(now.id)}`), null, [model, now?.id]);
  const move = (to) => {
    const next = Math.max(0, Math.min(to, alerts.length - 1));
    setAt(next);
    table.current?.querySelectorAll("tr[tabindex]")[next]?.focus();
  };
  usePressed((key) => (key === KEYS.undo ? last && last.label === undefined && reopen : now && ({ [KEYS.next]: () => move(active + 1), [KEYS.previous]: () => move(active - 1),
    [KEYS.done]: () => settle(now.id), ...Object.fromEntries(labels.map((label, i) => [String(i + 1), () => settle(now.id, label)])) })[key]));
  if (!found) return html`<${Instead} title="Alerts" error=${problem} again=${fetchAgain} />`;
  const settle = async (id, label) => {
    setSettled((was) => [...was, id].slice(-SHOWN));
    try {
      await (label === undefined ? ask("POST", `${to}/alerts/acknowledge`, { ids: [id] }) : ask("POST", `${to}/learn`, { id, y: label }));
      setLast({ id, label });
      setError(null);
      table.current?.querySelectorAll("tr[tabindex]")[active]?.focus();
    } catch (caught) {
      setSettled((was) => was.filter((other) => other !== id));
      setError(caught);
    }
    fetchAgain();
    again();
  };
  const correct = async (label) => {
    try {
      await ask("PUT", `${to}/examples/${path(last.id)}`, { y: label });
      setLast({ ...last, label });
    } catch (caught) { setError(caught); }
  };
  const reopen = async () => {
    try {
      await ask("POST", `${to}/alerts/acknowledge`, { ids: [last.id], reopen: true });
      setSettled((was) => was.filter((other) => other !== last.id));
      setLast(null);
      announce(`${last.id.slice(0, 80)} waits again`);
    } catch (caught) { setError(caught); }
    fetchAgain();
    again();
  };
  return html`<${Problem} error=${error ?? problem} again=${error ? null : fetchAgain} />
    <p class="row"><label>First <select aria-label="Order" value=${order} onChange=${(e) => setOrder(e.target.value)}><option value="best">the best</option><option value="newest">the newest</option></select></label>
      <span class="soft">${count(found.waiting)} waiting. A label teaches the model, and works the alert off.
        ${alerts.length > 1 && html`<span class="keyed"> Keys: next <kbd>${KEYS.next}</kbd>, previous <kbd>${KEYS.previous}</kbd>.</span>`}</span></p>
    ${last && html`<p class="row"><span><bdi class="code">${last.id.slice(0, 60)}</bdi> ${said}.</span>
      ${last.label === undefined && html`<button class="plain" onClick=${reopen}>Undo <kbd aria-hidden="true">${KEYS.undo}</kbd></button>`}
      ${last.label !== undefined && may("writer") && labels.filter((label) => !same(label, last.label)).map((label) => html`<button class="plain" onClick=${() => correct(label)}>No, it was ${shownLabel(label)}</button>`)}</p>`}
    ${alerts.length > 0 && html`<div class="scroll" ref=${table} tabindex="0" role="group" aria-label="Alerts"><table class="alerts">
      <thead><tr><th scope="col">Example</th><th scope="col">Decision</th><th scope="col" class="number">Probability</th><th scope="col" class="number">Expected gain</th><th scope="col">Why</th><th scope="col">Time</th><th scope="col">It was</th></tr></thead>
      <tbody>${alerts.map((alert, i) => html`<tr key=${alert.id} tabindex="-1" onClick=${() => setAt(i)} class=${i === active ? "active" : ""} aria-current=${i === active ? "true" : null}><th scope="row"><bdi class="code">${alert.id.slice(0, 60)}</bdi></th><td><bdi>${alert.decision}</bdi></td>
        <td class="number">${percent(alert.probability)}</td><td class="number">${figure(alert.gain)}</td><td>${REASONS[alert.reason]}</td><td>${new Date(alert.at).toLocaleString()}</td>
        <td>${labels.map((label, k) => html`<button class="plain" key=${shownLabel(label)} aria-label=${`${alert.id} was ${shownLabel(label)}`} onClick=${() => settle(alert.id, label)}>${shownLabel(label)}${i === active && html` <kbd aria-hidden="true">${k + 1}</kbd>`}</button> `)}
          <button class="plain" aria-label=${`${alert.id} is done`} onClick=${() => settle(alert.id)}>Done, no label${i === active && html` <kbd aria-hidden="true">${KEYS.done}</kbd>`}</button></td></tr>
        ${i === active && example && html`<tr key="x" class="active"><td colspan="7"><${Example} key=${alert.id} x=${example.x} show=${show} /></td></tr>`}`)}</tbody></table></div>`}`;
}
