// What the answers did: the honest accuracy, how many predictions of the pool changed, how far the goal is, and whether
// it is time to stop, with what that rests on.

import { html, useCallback, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Bar, count, interval, percent, plural, same } from "./parts.js";

const LOOKED_AT = 500; // candidates whose predictions are compared
const LAST = 20; // answers that the hint rests on
const STILL = 0.005; // share of changed predictions an answer below which little is to be gained
const EVERY_MS = 700;

// After answers, at most so often: predictions of the pool against those before, figures anew.
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

// Whether to go on: {stop, why}. random: examples and accuracy of the newer half of what was asked at random.
export function hint(steps, random) {
  let answers = 0, share = 0;
  for (let i = steps.length - 1; i >= 0 && answers < LAST; i--) {
    answers += steps[i].answers;
    share += steps[i].changed / steps[i].compared;
  }
  if (answers < LAST) return { stop: false, why: `A hint when to stop comes after ${LAST} answers; there are ${answers}.` };
  const honest = random?.examples ? interval(random.accuracy, random.examples) : null;
  const rest = honest
    ? `On questions drawn at random it is right ${percent(honest[0], 0)} to ${percent(honest[1], 0)} of the time (the newer half, ${count(random.examples)} of them).`
    : "No question was drawn at random yet, so how good it is nobody knows.";
  const gain = `The last ${answers} answers changed ${percent(share / answers, 2)} of the pool's predictions each. ${rest}`;
  return share / answers < STILL ? { stop: true, why: `Little more is to be gained. ${gain}` } : { stop: false, why: `Answers still change what it says: go on. ${gain}` };
}

// given: answers of mine on this page; before: what had been answered when it was opened.
export function Effect({ model, figures, effects, given, before }) {
  const name = `hinged-goal-${model}`;
  const [goal, setGoal] = useState(() => Number(localStorage.getItem(name)) || 100);
  const present = effects.figures ?? figures;
  const random = present?.metrics.sources.random?.newest_half, honest = random && interval(random.accuracy, random.examples);
  const last = effects.steps.at(-1), several = present?.configuration.labels?.overlap > 1;
  // The server's figures come a moment later than the answers; of several labels the last alone answers a question.
  const answered = Math.max(present?.pool.answered ?? 0, several ? 0 : before + given);
  const { stop, why } = hint(effects.steps, random);
  return html`<section class="card effect" aria-label="What your answers did"><h2>What your answers did</h2>
    <div class="row"><label for="goal">Goal</label><input id="goal" type="number" min="1" max="1000000" value=${goal} style=${{ width: "6.5rem" }}
      onChange=${(e) => { const n = Math.max(1, Math.round(Number(e.target.value)) || 1); setGoal(n); localStorage.setItem(name, n); }} />
      <span>${several ? html`<b>${count(answered)}</b> questions with all their labels; ${plural(given, "label")} by you now` : html`<b>${count(answered)}</b> answered, ${count(given)} by you now`}</span></div>
    <${Bar} value=${Math.min(answered, goal)} max=${goal} label=${`${count(answered)} of ${count(goal)} answered`} />
    <p>Accuracy on random questions: <b>${random ? percent(random.accuracy) : "–"}</b>
      ${honest && html` <span class="soft">${percent(honest[0], 0)} to ${percent(honest[1], 0)}, the newest ${plural(random.examples, "question")}</span>`}</p>
    <p class="changed">${last ? html`The last ${last.answers === 1 ? "answer" : `${last.answers} answers`} changed <b>${count(last.changed)}</b> of ${count(last.compared)} predictions of the pool.`
      : html`<span class="soft">${count(effects.size || present?.pool.size)} in the pool.</span>`}</p>
    <p class=${stop ? "" : "soft"}>${stop && html`<b>You might stop here. </b>`}${why}</p></section>`;
}
