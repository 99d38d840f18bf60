// Candidates on which annotators disagree, as a queue. A writer gives the label from which the model learns.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { Example } from "./example.js";
import { LabelName, Problem, same, usePolled } from "./parts.js";

const ANSWERS = 500; // number of newest answers in which the page looks for conflicts
const SHOWN = 5; // maximum number of conflicts on the page

// The candidates with different labels: [{id, votes}], the newest first.
export function conflictsIn(answers) {
  const by = Map.groupBy(answers.filter((it) => !it.learned), (it) => it.id);
  return [...by].map(([id, votes]) => ({ id, votes })).filter(({ votes }) => votes.some((it) => !same(it.label, votes[0].label)));
}

// held: the candidates with different labels that nobody else is asked about. Their answers may be too old to be listed.
export function Conflicts({ model, figures, held, settled }) {
  const to = `models/${path(model)}`, wanted = may("writer") && figures?.pool.conflicts > 0;
  const [found, problem, again] = usePolled(async () => {
    if (!wanted) return [];
    const listed = conflictsIn((await ask("GET", `${to}/answers?n=${ANSWERS}`)).answers);
    const old = held.filter(({ id }) => !listed.some((it) => it.id === id)).map(({ id }) => ({ id, votes: figures.classes.map((label) => ({ label })) }));
    const open = [...old, ...listed].slice(0, SHOWN);
    return Promise.all(open.map(async (it) => ({ ...it, x: (await ask("GET", `${to}/examples/${path(it.id)}`)).x })));
  }, 10_000, [model, wanted, figures?.pool.conflicts, held.length]);
  const [gone, setGone] = useState([]), [error, setError] = useState(null), heading = useRef();
  const settle = async (id, y) => {
    try {
      await ask("POST", `${to}/learn`, { id, y });
      setGone((was) => [...was, id]);
      setError(null);
      setTimeout(() => (heading.current ?? document.getElementById("main")).focus(), 0); // the button that was pressed is gone
      settled(id);
      again();
    } catch (caught) { setError(caught); }
  };
  const shown = found?.filter(({ id }) => !gone.includes(id)) ?? [];
  return (shown.length > 0 || (wanted && (error ?? problem))) && html`<section class="card" aria-label="Conflicts"><h2 tabindex="-1" ref=${heading}>Annotators disagree</h2>
    <p class="soft">Choose the label from which the model learns.${figures.pool.conflicts > SHOWN && ` Here are ${SHOWN} of them; more follow as you settle these.`}</p><${Problem} error=${error ?? problem} />
    ${shown.map(({ id, votes, x }) => html`<div key=${id}><p><bdi class="code">${id.slice(0, 60)}</bdi></p>
      <${Example} x=${x} show=${figures.configuration.show} />
      <div class="row">${[...Map.groupBy(votes, (it) => JSON.stringify(it.label)).values()].map((same_label) => html`
        <button key=${JSON.stringify(same_label[0].label)} onClick=${() => settle(id, same_label[0].label)}><b><${LabelName} of=${same_label[0].label} cut=${40} /></b> <small>${same_label.map((it) => it.annotator).join(", ").slice(0, 80)}</small></button>`)}</div></div>`)}</section>`;
}
