// The effect of the answers: the accuracy on random questions, the changed predictions in the pool, the distance to the
// goal, and a hint on when to stop, with a reason.

import { html, useCallback, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path } from "./api.js";
import { Bar, count, percent, plural, same } from "./parts.js";
import { compared } from "./standing.js";

const LOOKED_AT = 500; // number of candidates whose predictions are compared
const LAST = 20; // number of newest answers on which the hint is based
const STILL = 0.005; // share of predictions that change per answer; below it, the predictions stand still
const EVERY_MS = 700; // delay between an answer and the comparison, which then covers all answers so far

// After answers, compare the pool's predictions with the earlier predictions, and fetch the figures again.
export function useEffects(model) {
  const [found, setFound] = useState({ figures: null, steps: [], recent: [], looked: 0 });
  const at = useRef({ before: null, answers: 0, busy: false, timer: null });
  const look = useCallback(async () => {
    const own = at.current;
    own.timer = null;
    if (own.busy) { own.timer = setTimeout(look, EVERY_MS); return; }
    own.busy = true;
    const answers = own.answers;
    try {
      const to = `models/${path(model)}`;
      const [pool, figures, given] = await Promise.all([ask("GET", `${to}/pool?n=${LOOKED_AT}`), ask("GET", to), ask("GET", `${to}/answers?n=${LAST}`)]);
      const predicted = new Map(pool.candidates.map((c) => [c.id, c.prediction]));
      const step = { answers, compared: 0, changed: 0 };
      if (own.before) {
        for (const [id, prediction] of predicted) {
          const before = own.before.get(id) ?? null;
          if (before === null) continue; // not compared before, or without a prediction in the warm-up
          step.compared += 1;
          step.changed += !same(before, prediction);
        }
      }
      if (answers || !own.first) own.before = predicted; // otherwise what has changed counts for the next answer
      own.answers -= answers;
      const recent = given.answers.filter((it) => it.prediction !== null);
      setFound((was) => ({ figures, recent, looked: predicted.size, steps: own.first && step.compared && answers ? [...was.steps, step].slice(-200) : was.steps }));
      own.first = true;
    } catch { own.timer ??= setTimeout(look, EVERY_MS); }
    own.busy = false;
  }, [model]);
  const note = useCallback((learned) => {
    at.current.answers += learned;
    at.current.timer ??= setTimeout(look, EVERY_MS);
  }, [look]);
  if (!at.current.first && !at.current.busy && !at.current.timer) at.current.timer = setTimeout(look, 0);
  return [found, note];
}

// Whether to stop labelling: {stop, why}. The hint to stop rests on two things: the last answers changed hardly any
// prediction, and contradicted the model in at most half of the cases and no more often than its accuracy on random
// questions says, chance considered.
// recent: the newest answers of all annotators to candidates with a prediction. estimate: of the model's figures.
export function hint(steps, recent, estimate) {
  let answers = 0, share = 0;
  for (let i = steps.length - 1; i >= 0 && answers < LAST; i--) {
    answers += steps[i].answers;
    share += steps[i].changed / steps[i].compared;
  }
  if (answers < LAST) return { stop: false, why: `After ${LAST} answers the page tells you whether to stop; ${answers} so far.` };
  const honest = estimate?.accuracy, against = recent.filter((it) => !same(it.label, it.prediction)).length;
  const facts = `Each of the last ${answers} answers changed ${percent(share / answers, 2)} of the pool's predictions on average; ${count(against)} of the newest ${count(recent.length)} contradict the model. ${honest
    ? `The accuracy on random questions is between ${percent(honest.low, 0)} and ${percent(honest.high, 0)} (95 % interval, the newest ${count(estimate.examples)} of them).`
    : "No random question is answered yet, so the accuracy is unknown."}`;
  const says = (stop, why) => ({ stop, why: `${why} ${facts}` });
  if (share / answers >= STILL) return says(false, "Answers still change the predictions: go on labelling.");
  if (!honest) return says(false, "Answers change little. Answer random questions (see Settings) to learn whether you can stop.");
  const agreed = 1 - against / recent.length;
  if (recent.length && (agreed < 0.5 || compared(agreed, recent.length, honest.value, estimate.examples) < 0))
    return says(false, "Answers change little, but contradict the model. Check the guide and the suspects, or answer random questions (see Settings).");
  return says(true, "More answers would change little.");
}

// given: the annotator's answers since the page was opened. before: all answers given before the page was opened.
export function Effect({ model, figures, effects, given, before }) {
  const name = `hinged-goal-${model}`;
  const [goal, setGoal] = useState(() => Number(localStorage.getItem(name)) || 100);
  const present = effects.figures ?? figures;
  const estimate = present?.metrics.estimate, honest = estimate?.accuracy;
  const last = effects.steps.at(-1), several = present?.configuration.labels?.overlap > 1;
  // The server's figures lag behind the answers. If a question takes several labels, only its last label answers it.
  const answered = Math.max(present?.pool.answered ?? 0, several ? 0 : before + given);
  const { stop, why } = hint(effects.steps, effects.recent, estimate);
  return html`<section class="card effect" aria-label="Effect of your answers"><h2>Effect of your answers</h2>
    <div class="row"><label for="goal">Goal</label><input id="goal" type="number" min="1" max="1000000" value=${goal} style=${{ width: "6.5rem" }}
      onChange=${(e) => { const n = Math.max(1, Math.round(Number(e.target.value)) || 1); setGoal(n); localStorage.setItem(name, n); }} />
      <span>${several ? html`<b>${count(answered)}</b> questions with all their labels; ${plural(given, "label")} by you in this visit` : html`<b>${count(answered)}</b> answered, ${count(given)} by you in this visit`}</span></div>
    <${Bar} value=${Math.min(answered, goal)} max=${goal} label=${`${count(answered)} of ${count(goal)} answered`} />
    <p>Accuracy on random questions: <b>${honest ? percent(honest.value) : "–"}</b>
      ${honest && html` <span class="soft">(${percent(honest.low, 0)} to ${percent(honest.high, 0)}, newest ${plural(estimate.examples, "question")})</span>`}
      ${honest && html`<br /><small>The chart of the model also counts the questions that it found hard, so it may fall while the model improves.</small>`}</p>
    <p class="changed">${last ? html`The last ${last.answers === 1 ? "answer" : `${last.answers} answers`} changed <b>${count(last.changed)}</b> of ${count(last.compared)} predictions in the pool.`
      : html`<span class="soft">${plural(figures?.pool.size ?? 0, "candidate")} in the pool.</span>`}</p>
    <p class=${stop ? "" : "soft"}>${stop && html`<b>You can stop here. </b>`}${why}</p></section>`;
}
