// The effect of the answers: accuracy on random questions, changed predictions in the pool, distance to the goal, and
// a hint whether to stop, with its reason.

import { html, useCallback, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Bar, count, interval, percent, plural, same } from "./parts.js";

const LOOKED_AT = 500; // candidates whose predictions are compared
const LAST = 20; // newest answers from which the hint is computed
const STILL = 0.005; // changed share of predictions per answer; below it the page suggests to stop
const EVERY_MS = 700; // delay from an answer to the comparison, which covers all answers until then

// After answers, compare the pool's predictions with the former predictions, and fetch the figures again.
export function useEffects(model) {
  const [found, setFound] = useState({ figures: null, steps: [], size: 0, looked: 0 });
  const at = useRef({ before: null, answers: 0, busy: false, timer: null });
  const look = useCallback(async () => {
    const own = at.current;
    own.timer = null;
    if (own.busy) { own.timer = setTimeout(look, EVERY_MS); return; }
    own.busy = true;
    const answers = own.answers;
    try {
      const to = `models/${path(model)}`;
      const [pool, figures] = await Promise.all([ask("GET", `${to}/pool?n=${LOOKED_AT}`), ask("GET", to)]);
      const predicted = new Map(pool.candidates.map((c) => [c.id, c.prediction]));
      const step = { answers, compared: 0, changed: 0 };
      if (own.before) {
        for (const [id, prediction] of predicted) {
          if (!own.before.has(id)) continue;
          step.compared += 1;
          step.changed += !same(own.before.get(id), prediction);
        }
      }
      own.before = predicted;
      own.answers -= answers;
      setFound((was) => ({ figures, size: pool.size, looked: predicted.size, steps: own.first && step.compared && answers ? [...was.steps, step].slice(-200) : was.steps }));
      own.first = true;
    } catch { own.timer ??= setTimeout(look, EVERY_MS); }
    own.busy = false;
  }, [model]);
  const note = useCallback(() => {
    at.current.answers += 1;
    at.current.timer ??= setTimeout(look, EVERY_MS);
  }, [look]);
  if (!at.current.first && !at.current.busy && !at.current.timer) at.current.timer = setTimeout(look, 0);
  return [found, note];
}

// Whether to stop labelling: {stop, why}. random: examples and accuracy of the newer half of the random questions.
export function hint(steps, random) {
  let answers = 0, share = 0;
  for (let i = steps.length - 1; i >= 0 && answers < LAST; i--) {
    answers += steps[i].answers;
    share += steps[i].changed / steps[i].compared;
  }
  if (answers < LAST) return { stop: false, why: `After ${LAST} answers the page tells you whether to stop; ${answers} so far.` };
  const honest = random?.examples ? interval(random.accuracy, random.examples) : null;
  const rest = honest
    ? `The accuracy on random questions is between ${percent(honest[0], 0)} and ${percent(honest[1], 0)} (95 % interval, the newest ${count(random.examples)} of them).`
    : "No random question is answered yet, so the accuracy is unknown.";
  const gain = `Each of the last ${answers} answers changed ${percent(share / answers, 2)} of the pool's predictions on average. ${rest}`;
  return share / answers < STILL ? { stop: true, why: `More answers would change little. ${gain}` } : { stop: false, why: `Answers still change the predictions: go on labelling. ${gain}` };
}

// given: the annotator's answers since the page was opened; before: all answers until then.
export function Effect({ model, figures, effects, given, before }) {
  const name = `hinged-goal-${model}`;
  const [goal, setGoal] = useState(() => Number(localStorage.getItem(name)) || 100);
  const present = effects.figures ?? figures;
  const random = present?.metrics.sources.random?.newest_half, honest = random && interval(random.accuracy, random.examples);
  const last = effects.steps.at(-1), several = present?.configuration.labels?.overlap > 1;
  // The server's figures lag behind the answers. If a question takes several labels, only its last label answers it.
  const answered = Math.max(present?.pool.answered ?? 0, several ? 0 : before + given);
  const { stop, why } = hint(effects.steps, random);
  return html`<section class="card effect" aria-label="Effect of your answers"><h2>Effect of your answers</h2>
    <div class="row"><label for="goal">Goal</label><input id="goal" type="number" min="1" max="1000000" value=${goal} style=${{ width: "6.5rem" }}
      onChange=${(e) => { const n = Math.max(1, Math.round(Number(e.target.value)) || 1); setGoal(n); localStorage.setItem(name, n); }} />
      <span>${several ? html`<b>${count(answered)}</b> questions with all their labels; ${plural(given, "label")} by you in this session` : html`<b>${count(answered)}</b> answered, ${count(given)} by you in this session`}</span></div>
    <${Bar} value=${Math.min(answered, goal)} max=${goal} label=${`${count(answered)} of ${count(goal)} answered`} />
    <p>Accuracy on random questions: <b>${random ? percent(random.accuracy) : "–"}</b>
      ${honest && html` <span class="soft">(${percent(honest[0], 0)} to ${percent(honest[1], 0)}, newest ${plural(random.examples, "question")})</span>`}</p>
    <p class="changed">${last ? html`The last ${last.answers === 1 ? "answer" : `${last.answers} answers`} changed <b>${count(last.changed)}</b> of ${count(last.compared)} predictions in the pool.`
      : html`<span class="soft">${plural(effects.size || present?.pool.size || 0, "candidate")} in the pool.</span>`}</p>
    <p class=${stop ? "" : "soft"}>${stop && html`<b>You can stop here. </b>`}${why}</p></section>`;
}
