// Suspect labels. Each suspect label is shown next to the model's prediction and the examples that led to the
// prediction.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Example } from "./example.js";
import { announce, Dialog, figure, forgotten, Instead, Name, Problem, same, shownLabel, typedLabel, usePolled } from "./parts.js";
import { carriers, Neighbours } from "./why.js";

const SHOWN = 20; // number of suspects fetched at a time

export function Suspects({ model }) {
  const to = `models/${path(model)}`;
  const [found, problem, again] = usePolled(
    async () => ({ ...(await ask("GET", `${to}/suspects?n=${SHOWN}`)), figures: await ask("GET", to) }), 20_000, [model]);
  const [gone, setGone] = useState(new Set());
  const heading = useRef();
  if (!found) return html`<${Instead} title="Suspect labels" error=${problem} again=${again} />`;
  const shown = found.suspects.filter((s) => !gone.has(s.id));
  const settle = (id, text) => {
    setGone((was) => new Set(was).add(id));
    announce(text);
    heading.current?.focus();
    again();
  };
  return html`<h1 tabindex="-1" ref=${heading}>Suspect labels</h1>
    <p class="soft">Labels that are probably wrong, because the model contradicts them. Check each label: it may still be right. ${shown.length < SHOWN ? "The worst come first." : `Here are the worst ${SHOWN}; more follow as you settle these.`}</p>
    <${Problem} error=${problem} again=${again} />
    ${shown.length === 0 ? html`<div class="empty">No label looks wrong. There is nothing to do here.</div>` : shown.map((suspect) => html`
      <${Suspect} key=${suspect.id} model=${model} suspect=${suspect} figures=${found.figures} settle=${settle} />`)}`;
}

function Suspect({ model, suspect, figures, settle }) {
  const to = `models/${path(model)}/examples/${path(suspect.id)}`, show = figures.configuration.show;
  const [x, setX] = useState(undefined);
  const [said, setSaid] = useState(null);
  const [error, setError] = useState(null);
  const [choosing, setChoosing] = useState(false);
  useEffect(() => {
    let ended = false;
    (async () => {
      try {
        const example = await ask("GET", to);
        if (ended) return;
        setX(example.x);
        if (example.x !== null) {
          const found = await carriers(model, example.x);
          if (!ended) setSaid({ ...found, support_vectors: found.support_vectors.filter((sv) => sv.id !== suspect.id).slice(0, 4) });
        }
      } catch (caught) { if (!ended) setError(caught); }
    })();
    return () => { ended = true; };
  }, [suspect.id]);
  const put = async (y, word) => {
    try {
      const answer = await ask("PUT", to, { y });
      settle(suspect.id, `${suspect.id.slice(0, 80)} ${word}${answer.job ? ": retraining the model" : ""}`);
    } catch (caught) { setError(caught); }
  };
  const forget = async () => {
    try {
      if (await forgotten(model, suspect.id)) settle(suspect.id, "forgotten");
    } catch (caught) { setError(caught); }
  };
  const chosen = (event) => {
    event.preventDefault();
    put(typedLabel(event.target.elements.label.value), "corrected");
    setChoosing(false);
  };
  return html`<article class="card suspect" aria-label=${`Suspect ${suspect.id.slice(0, 80)}`}>
    <div><h2><bdi class="code">${suspect.id.slice(0, 100)}</bdi></h2>
      ${x === undefined ? html`<p class="waiting">Loading…</p>` : html`<${Example} x=${x} show=${show} side=${160} most=${12} />`}</div>
    <div><p>The label is <b><${Name} of=${suspect.label} /></b>. The model predicts <b><${Name} of=${suspect.prediction} /></b>
        <span class="soft"> (margin ${figure(suspect.margin)}${suspect.reason === "set aside" ? ", set aside by the ramp loss" : ""})</span>.</p>
      ${said && said.support_vectors.length > 0 && html`<p class="soft">Examples behind the prediction, with their contributions:</p><${Neighbours} of=${said.support_vectors} show=${show} />`}
      <${Problem} error=${error} />
      <div class="row"><button onClick=${() => put(suspect.label, "kept: its label is right")}>Keep <b><${Name} of=${suspect.label} cut=${30} /></b></button>
        ${!same(suspect.prediction, suspect.label) && html`<button class="main" onClick=${() => put(suspect.prediction, "corrected")}>Change to <${Name} of=${suspect.prediction} cut=${30} /></button>`}
        <button onClick=${() => setChoosing(true)}>Choose another label</button>
        <button class="plain danger" onClick=${forget}>Forget example</button></div></div>
    ${choosing && html`<${Dialog} title="Another label" close=${() => setChoosing(false)}><form class="row" onSubmit=${chosen}>
      <label>Label <input name="label" list=${`labels-${suspect.id}`} required maxlength="256" autocomplete="off" /></label>
      <datalist id=${`labels-${suspect.id}`}>${figures.classes.map((c) => html`<option value=${shownLabel(c)}></option>`)}</datalist>
      <button class="main">Change label</button></form></${Dialog}>`}</article>`;
}
