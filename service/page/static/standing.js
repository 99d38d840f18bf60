// The meaning of the figures of a model: its state in one sentence, and the next steps.

import { ask, may, path } from "./api.js";
import { count, interval, link, percent, plural, shownLabel } from "./parts.js";

const SUSPECTS_MAX = 100; // maximum number of suspects that the page counts
const AGES = [["week", 7], ["day", 1]]; // words and days of the comparisons with the past, the preferred one first
const DAY_MS = 86_400_000;
const CURVE_WINDOW = 1000; // number of examples in the window of a point on a curve
const GAIN_MIN = 50; // minimum number of examples before a half whose accuracy the page compares
const JUDGED_MIN = 100; // minimum number of predictions before the page says that costs would help a model that errs much
const LITTLE = 0.001; // gain of accuracy by a hundred examples below which the page says that more examples gain little
const RARE = 0.1; // share of examples below which the page says how well a class is ranked
const Z = 1.96; // standard deviations of a 95 % interval

const ANSWERS = new Set(["promoted", "reconfigured"]); // events by which people answer a drift

const sum = (values) => values.reduce((a, b) => a + b, 0);

// The most frequent class of the newest examples and its share: the accuracy of a constant prediction. Null without
// a confusion matrix.
export function usualClass(confusion) {
  const rows = confusion?.window.map(sum) ?? [], n = sum(rows);
  if (!n) return null;
  const most = Math.max(...rows);
  return { label: confusion.classes[rows.indexOf(most)], share: most / n };
}

// The rarest class of the newest examples: its label, the number of its examples, and how many the model found.
function rarest(confusion) {
  const rows = confusion?.window.map(sum) ?? [], least = Math.min(...rows.filter(Boolean)), i = rows.indexOf(least);
  return i < 0 ? null : { label: confusion.classes[i], examples: least, found: confusion.window[i][i] };
}

// Whether share `a` of `n` examples is greater (1) or less (-1) than share `b` of `m` other examples, or whether chance
// explains the difference (0).
export function compared(a, n, b, m) {
  const error = Math.sqrt((a * (1 - a)) / n + (b * (1 - b)) / m);
  return Math.abs(a - b) <= Z * error ? 0 : Math.sign(a - b);
}

// Whether the model is right more often than a constant prediction, chance considered. True without a confusion matrix.
export function beatsUsual({ window, confusion }) {
  const usual = usualClass(confusion);
  return !usual || window.accuracy === null || compared(window.accuracy, window.examples, usual.share, window.examples) > 0;
}

// The accuracy a week ago, or a day ago if the model is younger. Null if the model is younger than a day, or if it has
// learned too little since.
export function earlier({ curve }, now_ms = Date.now()) {
  for (const [word, days] of AGES) {
    const i = curve.at_ms.findLastIndex((ms) => ms <= now_ms - days * DAY_MS);
    if (i < 0 || curve.accuracy[i] === null) continue;
    return curve.examples.at(-1) - curve.examples[i] >= CURVE_WINDOW ? { word, accuracy: curve.accuracy[i], examples: Math.min(CURVE_WINDOW, curve.examples[i]) } : null;
  }
  return null;
}

// How much accuracy a hundred examples gained of late, with the upper end of its interval: {gain, most}. Compares the
// newest examples with examples before them; `gain` is 0 if chance explains the difference. Null with too few examples.
export function gained({ curve }, { accuracy, examples: size }, examples) {
  const young = size < CURVE_WINDOW, until = young ? examples / 2 : examples - size; // a young window has all examples
  const i = curve.examples.findLastIndex((n, at) => n <= until && curve.accuracy[at] !== null);
  if (i < 0 || curve.examples[i] < GAIN_MIN) return null;
  const before = curve.accuracy[i], m = Math.min(CURVE_WINDOW, curve.examples[i]), n = young ? size - m : size;
  const now = young ? (accuracy * size - before * m) / n : accuracy, hundreds = (examples - n / 2 - curve.examples[i] + m / 2) / 100;
  const error = Math.sqrt((now * (1 - now)) / n + (before * (1 - before)) / m);
  return { gain: compared(now, n, before, m) ? (now - before) / hundreds : 0, most: (now - before + Z * error) / hundreds };
}

// A figure by which challengers are compared, as a number: a cost, or a share in percent.
export const amount = (figure, v) => (figure === "cost" ? String(+v.toPrecision(3)) : (100 * v).toFixed(1));

// The challenger that leads the champion beyond chance by most: {name, figure, lead}. Null if no challenger leads.
export function leader(shadows) {
  const leading = Object.entries(shadows?.shadows ?? {}).filter(([, it]) => !it.stopped && it.compared?.interval[0] > 0)
    .map(([name, { compared: { figure, challenger, champion } }]) => ({ name, figure, lead: Math.abs(challenger - champion) }));
  return leading.sort((a, b) => b.lead - a.lead)[0] ?? null;
}

// The number of suspect labels, at most SUSPECTS_MAX + 1. Null if the model keeps no examples or is too weak to accuse a
// label, or if the key may not correct labels. figures: of the model; without them the function asks for them.
export async function suspectsOf(model, figures) {
  if (!may("writer")) return null;
  try {
    if (!beatsUsual((figures ?? await ask("GET", `models/${path(model)}`)).metrics)) return null;
    return (await ask("GET", `models/${path(model)}/suspects?n=${SUSPECTS_MAX + 1}`)).suspects.length;
  } catch (error) {
    if (error.status === 401) throw error;
    return null;
  }
}
export const suspectLabels = (n) => (n > SUSPECTS_MAX ? `more than ${SUSPECTS_MAX} labels` : plural(n, "label"));

const quoted = (label) => (typeof label === "string" ? `"${label.slice(0, 40)}"` : shownLabel(label));
const named = (name) => (/^(true|false|-?\d+|".*)$/.test(name) ? name : quoted(name)); // name: a class's name in the figures
const points = (share) => { const n = Number((100 * share).toPrecision(1)); return `${n} point${n === 1 ? "" : "s"}`; };
const between = (likely) => likely.map((v) => percent(v).replace(" %", "")).join(" and ");

// The state of a model in words, with or without its history: {first, more, rest}. `first` is the most important part,
// `more` completes it. A part of `rest` is missing if its figures do not exist.
export function standing({ figures, history, suspects }) {
  const { metrics, examples, novelty } = figures, { window, promise, decisions, drift, alarm } = metrics;
  const also = promise?.lacking ? [`${plural(promise.lacking, "more label")} must come until everything is promised`] : [];
  if (novelty?.alarm?.flagged) also.unshift(`alarm at x number ${count(novelty.alarm.last_at)}: the inputs have changed`);
  if (!examples) return { first: novelty?.seen ? `${count(novelty.seen)} x seen, and no label learned yet` : "This model has learned nothing yet", more: "", rest: also };
  if (window.accuracy === null) return { first: `${plural(examples, "example")} learned`, more: ", and no prediction to judge yet", rest: also };
  const rest = figures.configuration?.goal === "balanced" ? [`in ${percent(window.balanced_accuracy)} if each class counts the same`] : [], usual = usualClass(metrics.confusion), past = history && earlier(history);
  if (2 * (metrics.sources?.queried?.predicted ?? 0) > metrics.predicted) rest.push("most predictions were for questions that the model found hard");
  if (usual) rest.push(beatsUsual(metrics) ? `always guessing ${quoted(usual.label)} would be right in ${percent(usual.share)}` : `no better than always guessing ${quoted(usual.label)} (${percent(usual.share)})`);
  const rare = rarest(metrics.confusion);
  if (usual && rare && !beatsUsual(metrics)) rest.push(`it finds ${count(rare.found)} of ${count(rare.examples)} examples of ${quoted(rare.label)}`);
  if (past) {
    const word = ["worse than", "no different from", "better than"][compared(window.accuracy, window.examples, past.accuracy, past.examples) + 1];
    rest.push(`${word} a ${past.word} ago (${percent(past.accuracy)})`);
  }
  for (const [name, { long }] of Object.entries(metrics.classes ?? {})) {
    if (typeof long?.recall_at_1_percent === "number" && long.share < RARE && name !== shownLabel(usual?.label)) rest.push(`the highest-scored 1 % of examples contains ${percent(long.recall_at_1_percent, 0)} of ${named(name)}`);
  }
  if (decisions?.examples) {
    const [simple, cost] = Object.entries(decisions.always).sort((a, b) => a[1] - b[1])[0] ?? [];
    rest.push(`a decision cost ${decisions.cost.toPrecision(3)} on average (${plural(decisions.examples, "decision")})${simple === undefined ? "" : `; always deciding ${named(simple)} would have cost ${cost.toPrecision(3)}`}`);
  }
  if (typeof promise?.window.coverage === "number") {
    const promised = promise.promised === undefined ? "" : ` (promised: ${percent(promise.promised)})`;
    rest.push(`its sets contain the label in ${percent(promise.window.coverage)}${promised}`);
  }
  rest.push(...also);
  if (drift.flagged) {
    const answer = history?.marks?.findLast((m) => ANSWERS.has(m.kind) && m.examples >= drift.last_at);
    rest.push(`the error rate rose at example ${count(drift.last_at)}${answer ? `, then: ${answer.text}, at example ${count(answer.examples)}` : ""}${
      drift.examples ? `: right in ${percent(1 - drift.errors / drift.examples)} of ${plural(drift.examples, "example")} since the change` : ""}`);
  }
  if (alarm?.flagged) rest.push(`alarm at example ${count(alarm.last_at)}: errors have become more frequent`);
  const more_gains = drift.flagged || !history ? null : gained(history, window, examples);
  if (more_gains?.gain > 0) rest.push(`each hundred of the newest examples gained about ${points(more_gains.gain)}`);
  else if (more_gains?.gain === 0 && more_gains.most < LITTLE) rest.push(`a hundred more examples would gain less than ${points(LITTLE)}`);
  if (suspects) rest.push(`the model contradicts ${suspectLabels(suspects)} that it learned`);
  const more = ` of the last ${plural(window.examples, "prediction")}, between ${between(interval(window.accuracy, window.examples))}`;
  return { first: `Right in ${percent(window.accuracy)}`, more, rest };
}

// The next steps, the most urgent first: {text, href}. A key sees only steps that its role may take.
export function steps({ model, figures, suspects, shadows }) {
  const { pool, metrics, examples, configuration } = figures, found = [];
  const add = (role, text, href) => may(role) && found.push({ text, href });
  if (metrics.drift.flagged || metrics.alarm?.flagged || figures.novelty?.alarm?.flagged) add("reader", "See what happened", fold(model, "happened"));
  const ahead = leader(shadows);
  if (ahead) add("admin", `Promote ${ahead.name}: ${amount(ahead.figure, ahead.lead)} ${ahead.figure === "cost" ? "less cost per example" : "points better"}`, fold(model, "challengers"));
  if (figures.alerts?.waiting) add("annotator", `Work off ${plural(figures.alerts.waiting, "alert")}`, link(model, "decide"));
  if (pool.conflicts) add("writer", `Settle ${plural(pool.conflicts, "conflict")} of annotators`, link(model, "label"));
  if (!examples) add("writer", "Bring data from a file", link(model, "data"));
  if (pool.size) add("annotator", `Label ${plural(pool.size, "question")}`, link(model, "label"));
  if ((metrics.warning || (metrics.window.examples >= JUDGED_MIN && !beatsUsual(metrics))) && !configuration.costs) add("admin", "Say what each error costs", form(model, "costs"));
  const check = () => suspects && add("writer", `Check ${suspectLabels(suspects)}`, link(model, "suspects")), noisy = suspects > SUSPECTS_MAX; // of many, most are noise
  if (!noisy) check();
  if (examples) add("writer", "Predict or add a file", link(model, "data"));
  if (noisy) check();
  add("reader", "Use it by code", fold(model, "code"));
  return found;
}

// The address of a fold in the view of a model.
export const fold = (model, name) => `${link(model, "watch")}/${name}`;

// The address of the form for a part of the settings.
export const form = (model, part) => `${fold(model, "settings")}/${part}`;

// The models of an overview that need somebody, the most urgent first: {model, text, href}. suspects: the number of
// suspects by model; of many, most are noise, and need nobody.
export function attention(models, suspects) {
  const found = [], later = [];
  for (const it of models) {
    const { model } = it, add = (text, href) => found.push({ model, text, href });
    if (it.state === "stopped") add("has stopped", link(model));
    if (it.alarmed) add("makes more errors than before (alarm)", fold(model, "happened"));
    if (it.input_alarmed) add("gets other inputs than before (alarm)", fold(model, "happened"));
    if (it.drifted) add("has a higher error rate than before (drift)", fold(model, "happened"));
    if (it.queue > FULL * it.queue_max) add(`has a full queue: ${count(it.queue)} of ${count(it.queue_max)} examples wait`, fold(model, "machine"));
    if (it.conflicts && may("writer")) add(`has ${plural(it.conflicts, "conflict")}: annotators disagree`, link(model, "label"));
    if (suspects[model] && suspects[model] <= SUSPECTS_MAX) later.push({ model, text: `contradicts ${plural(suspects[model], "label")} that it learned`, href: link(model, "suspects") });
  }
  return [...found, ...later];
}
const FULL = 0.9; // share of a queue's limit from which the page calls the queue full
