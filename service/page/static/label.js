// The labelling view. The view shows one question at a time and the effect of the answers. The annotator answers a
// question with one key.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, insist, may, path, who } from "./api.js";
import { Answers } from "./answers.js";
import { Conflicts } from "./conflicts.js";
import { Effect, useEffects } from "./effects.js";
import { Example, Usual } from "./example.js";
import { described, Guide } from "./guide.js";
import { ACTIONS, Keys, keysOf, useKeys } from "./keys.js";
import { announce, link, LabelName, plural, Problem, same, shownLabel, typedLabel, usePolled } from "./parts.js";
import { Questions } from "./questions.js";
import { Progress } from "./retraining.js";
import { form } from "./standing.js";
import { Why } from "./why.js";

const STRATEGIES = { active: "most uncertain", random: "random", autoactive: "most uncertain of a sample" };

export function Label({ model }) {
  const [annotator, setAnnotator] = useState(() => sessionStorage.getItem("hinged-annotator") ?? (who.name === "everyone" ? "" : who.name));
  const [begun, setBegun] = useState(Boolean(annotator));
  if (begun) return html`<${Work} model=${model} annotator=${annotator} leave=${() => setBegun(false)} />`;
  const begin = (event) => {
    event.preventDefault();
    sessionStorage.setItem("hinged-annotator", annotator);
    setBegun(true);
  };
  return html`<form class="card sign-in" onSubmit=${begin}><h1>Label <bdi>${model}</bdi></h1>
    <label>Your name <input value=${annotator} onInput=${(e) => setAnnotator(e.target.value.trim())} required maxlength="256" autofocus autocomplete="off" /></label>
    <p class="soft">The server stores your answers under this name. Use the same name each time.</p>
    <button class="main" disabled=${!annotator}>Begin labelling</button></form>`;
}

function Work({ model, annotator, leave }) {
  const [strategy, setStrategy] = useState("active");
  const [, show] = useState(0);
  const again = () => show((n) => n + 1);
  const [figures, problem, look] = usePolled(() => ask("GET", `models/${path(model)}`), 30_000, [model]);
  const [more, setMore] = useState([]); // new labels that the annotator typed
  const [given, setGiven] = useState([]); // the annotator's answers and skips, newest last: {id, lease, label, x}, or {id, lease, skipped}
  const [undoing, setUndoing] = useState(null); // the answer that the annotator is changing: {id, label, x}
  const [said, setSaid] = useState(null); // the message under the question: {text, act}
  const [job, setJob] = useState(null); // the job that retrains the model with a changed answer
  const [open, setOpen] = useState({}); // the unfolded parts, each with the id of its question
  const [changes, setChanges] = useState(0); // number of answers and changes; a new number makes the lists load again
  const changing = useRef(Promise.resolve()); // resolves when the last change was sent; changes are sent one after the other
  const mine = useRef(new Set()), before = useRef(null); // ids of questions answered since the page was opened; number of earlier answers
  const acts = useRef(0); // number of actions; the result of an earlier action must not hide a later message
  const questions = useRef(null), usual = useRef(new Usual()), field = useRef(), kept = useRef({}), order = useRef([]);
  const [effects, noteEffect] = useEffects(model);

  const say = (what, act = acts.current) => setSaid((was) => (was && was.act > act ? was : { ...what, act }));
  useEffect(() => {
    const made = new Questions(model, annotator, strategy, may("writer"), {
      changed: again,
      taken: (answer, result) => {
        say({ ...outcome(result, answer), of: answer.id }, answer.act ?? 0);
        setChanges((n) => n + 1);
        noteEffect(collecting(result) ? 0 : 1);
      },
      refused: (answer, error) => {
        say({ bad: true, text: answer ? `${answer.id.slice(0, 80)}: ${error.message}` : error.message });
        if (!answer) return;
        mine.current.delete(answer.id);
        setGiven((was) => was.filter((g) => g.lease !== answer.lease));
      },
    });
    questions.current = made;
    again();
    return () => made.close();
  }, [model, annotator, strategy]);
  useEffect(() => { if (said) announce(said.text); }, [said]);
  useEffect(() => { look(); }, [questions.current?.conflicts.length]);

  before.current ??= figures?.pool.answered ?? null;
  // Show no question before the classes are known. The question's keys would do nothing.
  const now = questions.current, present = figures && now?.present, question = undoing ?? present ?? null;
  for (const { id, x } of now?.waiting ?? []) usual.current.add(id, x);
  const known = [figures, effects.figures].map((it) => it?.classes ?? []).sort((a, b) => b.length - a.length)[0]; // the newest: classes only come
  const there = withNew(known, more), classes = withNew(order.current.filter((label) => there.some((it) => same(it, label))), there);
  order.current = classes; // the order in which the page showed them first: no button moves while somebody labels
  const guide = figures?.configuration.labels?.guide, declared = figures?.configuration.classes ?? null;
  const keys = keysOf(model, classes, kept.current); // in the model's order, which is the same for everybody; then the typed labels
  const lease = present?.lease ?? null, first = Boolean(question) && !classes.length;
  useEffect(() => { if (first) field.current?.focus(); }, [first]); // the first label has no key
  useEffect(() => { if (lease && !undoing) announce(`Next question; ${now.waiting.length - 1} more ready`); }, [lease]);

  const act = {
    label: async (label) => {
      if (!question) return;
      if (undoing) {
        setUndoing(null);
        await change(undoing, label);
        return;
      }
      const { id, x, lease } = now.answer(label, ++acts.current);
      mine.current.add(id);
      setGiven((was) => [...was, { id, x, lease, label }].slice(-200));
    },
    skip: () => pass("me"),
    skipAll: () => pass("all"),
    unsure: () => question && !undoing && now.waiting.length > 1 && now.postpone(),
    undo: () => {
      const last = given.at(-1);
      if (undoing || !last) return;
      setGiven((was) => was.slice(0, -1));
      acts.current++;
      if (last.skipped) {
        now.unskip(last.skipped);
        say({ text: "the skip is undone" });
        return;
      }
      if (now.recall(last.lease)) mine.current.delete(last.id);
      else setUndoing(last);
      announce(`Back at ${last.id.slice(0, 80)}, which you labelled ${shownLabel(last.label)}`);
    },
    why: () => question && setOpen((was) => ({ ...was, why: was.why === question.id ? null : question.id })),
    another: () => { setOpen((was) => ({ ...was, another: question?.id })); setTimeout(() => field.current?.focus(), 0); },
    help: () => setOpen((was) => ({ ...was, keys: true })),
    escape: () => setUndoing(null),
  };
  useKeys(keys, classes, act);

  function pass(whom) {
    if (!question || undoing) return;
    const skipped = now.skip(whom);
    setGiven((was) => [...was, { id: skipped.id, lease: skipped.lease, skipped }].slice(-200));
    acts.current++;
    say({ text: whom === "all" ? "skipped for all" : "skipped" });
  }

  async function change(answered, label) {
    if (same(label, answered.label)) {
      setGiven((was) => [...was, answered]);
      say({ text: "Label unchanged" });
      return;
    }
    const shown = { ...answered, label }, act = ++acts.current;
    setGiven((was) => [...was, shown]);
    say({ text: `Changing to ${shownLabel(label)}` });
    const before = changing.current;
    let done;
    changing.current = new Promise((resolve) => { done = resolve; });
    try {
      await before;
      await now.settled(answered.lease); // the server must receive the answer before the change of the answer
      const answer = await insist("PUT", `models/${path(model)}/answers/${path(answered.id)}`, { annotator, y: label });
      say({ text: `Changed to ${shownLabel(label)}` }, act);
      if (answer.job) setJob(answer.job);
    } catch (error) {
      setGiven((was) => was.map((g) => (g === shown ? answered : g)));
      say({ bad: true, text: `Not changed: ${error.message}` });
    }
    done();
    setChanges((n) => n + 1);
    noteEffect(0);
  }

  function taught(ended) {
    setJob(null);
    say(ended.error ? { bad: true, text: `Retraining failed: ${ended.error}` } : { text: "The model is retrained" });
    noteEffect(0);
  }

  const typed = (event) => {
    event.preventDefault();
    const label = typedLabel(event.target.elements.label.value);
    if (label === "") return;
    setMore((was) => withNew(was, [label]));
    if (event.submitter?.name === "only") {
      setOpen((was) => ({ ...was, another: question.id }));
      event.target.reset();
      field.current.focus();
      return;
    }
    setOpen((was) => ({ ...was, another: null }));
    act.label(label);
  };

  const button = (action, extra = {}) => html`<button class="plain" onClick=${act[action]} ...${extra}>${ACTIONS[action]} <kbd aria-hidden="true">${keys.of(action)}</kbd></button>`;
  const none = !question;
  return html`<h1 class="hidden">Label ${model}</h1>
    ${now?.away && html`<p class="problem" role="alert">${now.away.message}: ${now.outbox.length ? `${plural(now.outbox.length, "answer")} will be sent when the server is back` : "trying again"}. You can go on labelling.</p>`}
    <${Problem} error=${now?.error ?? (figures ? null : problem)} />
    <div class="labelling"><div class="side">
      <section class=${`card question ${undoing ? "again" : ""}`} aria-label="Question">
        ${undoing && html`<p>You answered <b><${LabelName} of=${undoing.label} /></b>. Choose another label, or keep it with <kbd>Esc</kbd>.
          <button class="plain" onClick=${act.escape}>Keep it</button></p>`}
        ${question?.disputed && html`<p class="soft">Annotators disagree about this example.</p>`}
        <div class="asked">${question ? html`<${Example} key=${question.id} x=${question.x} told=${question.show} show=${figures?.configuration.show} usual=${usual.current} />`
          : figures && now?.asked ? html`<p class="soft" role="status">No question for you. ${now.conflicts.length ? "Only conflicts of annotators are left." : figures.pool.size ? "Other annotators have the remaining questions, or you skipped them." : may("writer") ? html`The pool is empty. <a class="button main" href=${link(model, "data")}>Bring examples to label</a>` : "The pool is empty. A writer fills it by importing rows without a label."}</p>`
          : html`<p class="waiting">Loading…</p>`}</div>
        <div class="answers" role="group" aria-label="Answers">${classes.map((label) => html`
          <button key=${shownLabel(label)} disabled=${none} class=${undoing && same(undoing.label, label) ? "given" : ""} onClick=${() => act.label(label)}>
            <${LabelName} of=${label} cut=${200} />${keys.ofClass(label) && html` <kbd aria-hidden="true">${keys.ofClass(label)}</kbd>`}<${Described} text=${described(guide, label, classes)} /></button>`)}
          ${question && figures && !declared && (open.another === question.id || !classes.length ? html`<form class="row" onSubmit=${typed}><label>Label <input ref=${field} name="label" autocomplete="off" maxlength="256" /></label><button>Use this label</button><button name="only">Only add it</button></form>`
            : button("another", { disabled: none }))}</div>
        ${first && html`<p class="soft">Nothing is labelled yet. Type what this example is, or first add each label that you need: each gets a button and a key. The model learns from each answer, predicts as soon as it knows two labels, and then asks for the examples that teach it most.</p>`}
        <div class="actions">${button("skip", { disabled: none || undoing })}${button("skipAll", { disabled: none || undoing })}
          ${button("unsure", { disabled: none || undoing || now.waiting.length < 2 })}${button("undo", { disabled: undoing || !given.length })}
          ${button("why", { disabled: none, "aria-expanded": question?.id === open.why })}${button("help")}</div>
        <p class="soft" style=${{ textAlign: "center" }}>${question && html`<bdi class="code">${question.id.slice(0, 60)}${question.id.length > 60 ? "…" : ""}</bdi>`}
          ${now?.outbox.length > 1 && ` · sending ${plural(now.outbox.length, "answer")}`}</p>
        ${said && html`<p class="soft said">${said.of !== undefined && html`Your answer for <bdi>${said.of.slice(0, 40)}</bdi>: `}<span class=${said.bad ? "problem" : said.wrong ? "flag" : ""}>${said.text}</span></p>`}
      </section>
      ${question && open.why === question.id && html`<${Why} key=${question.id} model=${model} question=${question} show=${figures?.configuration.show} />`}
      ${job && html`<section class="card" aria-label="Retraining"><${Progress} job=${job} ended=${taught}>You can go on labelling.</${Progress}></section>`}
    </div>
    <aside class="side" aria-label="Your work">
      <${Conflicts} model=${model} figures=${figures} held=${now?.conflicts ?? []} settled=${(id) => { now?.drop(id); say({ text: `${id.slice(0, 80)} is settled` }); look(); }} />
      ${figures && html`<${Guide} model=${model} guide=${guide} classes=${classes} changed=${look} />`}
      <${Effect} model=${model} figures=${figures} effects=${effects} given=${mine.current.size} before=${before.current ?? 0} />
      <${Answers} model=${model} annotator=${annotator} changes=${changes} given=${given} show=${figures?.configuration.show} disabled=${Boolean(undoing)}
        pick=${(answered) => setUndoing(answered)} gone=${(id) => setGiven((was) => was.filter((g) => g.id !== id))} />
      <section class="card"><h2>Settings</h2>
        <label>Questions <select value=${strategy} onChange=${(e) => setStrategy(e.target.value)}>${Object.entries(STRATEGIES).map(([name, word]) => html`<option value=${name}>${word}</option>`)}</select></label>
        <p>Annotator <bdi>${annotator}</bdi> <button class="plain" onClick=${leave}>Change annotator</button></p>
        ${may("admin") && html`<p><a href=${form(model, "show")}>Show pictures or links</a></p>`}</section>
    </aside></div>
    ${open.keys && html`<${Keys} model=${model} classes=${classes} keys=${keys} changed=${again} close=${() => setOpen((was) => ({ ...was, keys: false }))} />`}`;
}

const Described = ({ text }) => text && html`<small><bdi>${text}</bdi></small>`;

// The classes and the typed labels. Numbers are in numeric order, other labels in the order in which they came.
function withNew(classes, more) {
  const all = [...classes, ...more.filter((label) => !classes.some((known) => same(known, label)))];
  return all.every((label) => typeof label === "number") ? all.sort((a, b) => a - b) : all;
}

// Whether further annotators must label the example before the model learns it.
const collecting = ({ collected, needed }) => collected < needed;

// The message about an answer that the server has accepted. The message tells what the model had predicted.
function outcome(result, answer) {
  if (collecting(result)) return { text: `label ${result.collected} of ${result.needed}: the model learns after the last label` };
  if (result.prediction === null) return { text: "the model made no prediction" };
  return same(result.prediction, answer.y)
    ? { text: `as the model predicted: ${shownLabel(answer.y).slice(0, 40)}` }
    : { wrong: true, text: `the model predicted ${shownLabel(result.prediction).slice(0, 40)}, not ${shownLabel(answer.y).slice(0, 40)}` };
}
