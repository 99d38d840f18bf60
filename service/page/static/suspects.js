// Suspect labels. Each suspect label is shown next to the model's prediction and the examples that led to the
// prediction.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Example } from "./example.js";
import { usePressed } from "./keys.js";
import { announce, Dialog, figure, forgotten, Instead, LabelName, Problem, same, shownLabel, typedLabel, usePolled } from "./parts.js";
import { beatsUsual } from "./standing.js";
import { carriers, Neighbours } from "./why.js";

const SHOWN = 20; // number of suspects fetched at a time
const KEYS = { keep: "k", change: "c", choose: "o", next: "n", previous: "p", undo: "u" };
const Key = ({ of, active = true }) => active && html` <kbd aria-hidden="true">${KEYS[of]}</kbd>`;

export function Suspects({ model }) {
  const to = `models/${path(model)}`;
  const [found, problem, again] = usePolled(
    async () => ({ ...(await ask("GET", `${to}/suspects?n=${SHOWN}`)), figures: await ask("GET", to) }), 20_000, [model]);
  const [settled, setSettled] = useState([]); // what was done, the newest last: {suspect, text, y}; y: the new label, if there is one
  const [back, setBack] = useState([]); // suspects that came back by an undo; the server lists them no longer
  const [at, setAt] = useState(0); // number of the suspect for which the keys are
  const [error, setError] = useState(null);
  const heading = useRef(), acts = useRef({}), busy = useRef(false);
  const order = useRef(new Map()); // by id: the number at which a suspect was first shown, because scores change with each answer
  for (const { id } of found?.suspects ?? []) if (!order.current.has(id)) order.current.set(id, order.current.size);
  const listed = [...(found?.suspects ?? [])].sort((a, b) => order.current.get(a.id) - order.current.get(b.id));
  const gone = new Set(settled.map(({ suspect }) => suspect.id));
  const shown = [...back, ...listed.filter((s) => !back.some((b) => b.id === s.id))].filter((s) => !gone.has(s.id));
  const active = Math.max(0, Math.min(at, shown.length - 1)), last = settled.at(-1);
  const settle = (suspect, text, y) => {
    setSettled((was) => [...was, { suspect, text, y }]);
    setError(null);
    announce(`${suspect.id.slice(0, 80)} ${text}`);
    heading.current?.focus();
    again();
  };
  const move = (by) => {
    const next = Math.max(0, Math.min(active + by, shown.length - 1));
    setAt(next);
    document.querySelectorAll(".suspect")[next]?.focus();
  };
  const undo = async () => {
    if (busy.current || !last || last.y === null) return;
    busy.current = true;
    try {
      if (!same(last.y, last.suspect.label)) await ask("PUT", `${to}/examples/${path(last.suspect.id)}`, { y: last.suspect.label });
      setSettled((was) => was.slice(0, -1));
      setBack((was) => [last.suspect, ...was.filter((s) => s.id !== last.suspect.id)]);
      setAt(0);
      setError(null);
      announce(`${last.suspect.id.slice(0, 80)} has the label ${shownLabel(last.suspect.label)} again`);
    } catch (caught) { setError(caught); }
    busy.current = false;
  };
  usePressed((key) => ({ [KEYS.next]: () => move(1), [KEYS.previous]: () => move(-1), [KEYS.undo]: undo,
    [KEYS.keep]: acts.current.keep, [KEYS.change]: acts.current.change, [KEYS.choose]: acts.current.choose })[key]);
  if (!found) return html`<${Instead} title="Suspect labels" error=${problem} again=${again} />`;
  if (!shown.length) acts.current = {};
  return html`<h1 tabindex="-1" ref=${heading}>Suspect labels</h1>
    <p class="soft">Labels that are probably wrong, because the model contradicts them. Check each label: it may still be right. ${!beatsUsual(found.figures.metrics) && html`<b class="flag">The model is no better than a constant prediction, so it is rather the model that is wrong.</b> `}${shown.length < SHOWN ? "The worst come first." : `Here are the worst ${SHOWN}; more follow as you settle these.`}
      ${shown.length > 1 && html`<span class="keyed"> Keys: next<${Key} of="next" />, previous<${Key} of="previous" />.</span>`}</p>
    <${Problem} error=${error ?? problem} again=${error ? null : again} />
    ${last && html`<p class="row"><span><bdi class="code">${last.suspect.id.slice(0, 60)}</bdi> ${last.text}.</span>
      ${last.y !== null && html`<button class="plain" onClick=${undo}>Undo<${Key} of="undo" /></button>`}</p>`}
    ${shown.length === 0 ? html`<div class="empty">No label looks wrong. There is nothing to do here.</div>` : shown.map((suspect, i) => html`
      <${Suspect} key=${suspect.id} model=${model} suspect=${suspect} figures=${found.figures} settle=${settle} acts=${i === active ? acts : null} />`)}`;
}

// acts: a reference that gets the actions for keys, if the keys are for this suspect.
function Suspect({ model, suspect, figures, settle, acts }) {
  const to = `models/${path(model)}/examples/${path(suspect.id)}`, show = figures.configuration.show;
  const [example, missing] = usePolled(() => ask("GET", to), null, [suspect.id]), x = example?.x;
  const [said, unsaid] = usePolled(async () => x && carriers(model, x), null, [suspect.id, example]);
  const [error, setError] = useState(null), [choosing, setChoosing] = useState(false);
  const behind = said?.support_vectors.filter((sv) => sv.id !== suspect.id).slice(0, 4) ?? [];
  const sending = useRef(false); // a second press of a key must not send a second label
  const put = async (y) => {
    if (sending.current) return;
    sending.current = true;
    try {
      const answer = await ask("PUT", to, { y });
      settle(suspect, `${same(y, suspect.label) ? "keeps" : "gets"} the label ${shownLabel(y).slice(0, 80)}${answer.job ? "; the model is being retrained" : ""}`, y);
    } catch (caught) { setError(caught); sending.current = false; }
  };
  const forget = async () => {
    try {
      if (await forgotten(model, suspect.id)) settle(suspect, "is forgotten", null);
    } catch (caught) { setError(caught); }
  };
  const chosen = (event) => {
    event.preventDefault();
    put(typedLabel(event.target.elements.label.value));
    setChoosing(false);
  };
  const differs = !same(suspect.prediction, suspect.label), active = acts !== null;
  const keep = () => put(suspect.label), change = () => put(suspect.prediction), choose = () => setChoosing(true);
  if (active) acts.current = { keep, change: differs ? change : undefined, choose };
  return html`<article class=${`card suspect ${active ? "active" : ""}`} tabindex="-1" aria-current=${active ? "true" : null} aria-label=${`Suspect ${suspect.id.slice(0, 80)}`}>
    <div><h2><bdi class="code">${suspect.id.slice(0, 100)}</bdi></h2>
      ${x === undefined ? html`<p class="waiting">Loading…</p>` : html`<${Example} x=${x} show=${show} side=${160} most=${12} />`}</div>
    <div><p>The label is <b><${LabelName} of=${suspect.label} /></b>. The model predicts <b><${LabelName} of=${suspect.prediction} /></b>
        <span class="soft"> (margin ${figure(suspect.margin)}${suspect.reason === "set aside" ? ", and the model sets the label aside" : ""})</span>.</p>
      <${Problem} error=${error ?? missing ?? unsaid} />
      <div class="row"><button onClick=${keep}>Keep <b><${LabelName} of=${suspect.label} cut=${30} /></b><${Key} of="keep" active=${active} /></button>
        ${differs && html`<button onClick=${change}>Change to <b><${LabelName} of=${suspect.prediction} cut=${30} /></b><${Key} of="change" active=${active} /></button>`}
        <button onClick=${choose}>Choose another label<${Key} of="choose" active=${active} /></button>
        <button class="plain quiet" onClick=${forget}>Forget example</button></div>
      ${behind.length > 0 && html`<p class="soft">Examples behind the prediction, with their contributions:</p><${Neighbours} of=${behind} show=${show} />`}</div>
    ${choosing && html`<${Dialog} title="Another label" close=${() => setChoosing(false)}><form class="row" onSubmit=${chosen}>
      <label>Label <input name="label" autofocus list=${`labels-${suspect.id}`} required maxlength="256" autocomplete="off" /></label>
      <datalist id=${`labels-${suspect.id}`}>${figures.classes.map((c) => html`<option value=${shownLabel(c)}></option>`)}</datalist>
      <button class="main">Change label</button></form></${Dialog}>`}</article>`;
}
