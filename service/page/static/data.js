// Import data: show a preview of a file, then send its rows to a model as examples or candidates, or get predictions.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { namesOf } from "./controls.js";
import { announce, Bar, count, link, Listed, NAME, plural, Problem, REASONS, shownLabel, usePolled, Warnings } from "./parts.js";
import { Lacking } from "./promise.js";
import { Preview, Vectors } from "./preview.js";
import { guess, known, labelOf, linesOf, open, readAs } from "./read.js";
import { form, standing } from "./standing.js";
import { configurationFor, featuresOf, nameOf, Upload } from "./upload.js";

const LOOKED_AT = 1000; // number of rows that are read for the preview and to guess the kind of each column
const FIGURES_MS = 5_000; // time between two requests for the state of a model after an upload
const REFUSED_SHOWN = 1000; // maximum number of refused rows listed
const uploads = []; // all uploads since the page was loaded, newest first
const listeners = new Set();
const changed = () => { for (const tell of listeners) tell(); };

export function Data({ model }) {
  const [, show] = useState(0);
  const [chosen, setChosen] = useState(null); // {file, source, rows, broken, columns, name}
  const [error, setError] = useState(null);
  const [over, setOver] = useState(false);
  const field = useRef();
  useEffect(() => {
    const tell = () => show((n) => n + 1);
    listeners.add(tell);
    return () => listeners.delete(tell);
  }, []);
  // Read a file, or read it again. choices: {separator, missing}, if the user chose them.
  const take = async (file, choices = {}) => {
    if (!file) return;
    try {
      const source = await open(file, choices), rows = [], broken = [];
      for await (const [number, row] of source.rows()) {
        if (row instanceof Error) broken.push({ number, why: row.message }); else rows.push(row);
        if (rows.length + broken.length >= LOOKED_AT) break;
      }
      if (!rows.length) throw new Error(broken.length ? `line ${broken[0].number}: ${broken[0].why}` : "the file is empty");
      const names = source.names ?? [...new Set(rows.flatMap((row) => Object.keys(row)))];
      setChosen({ file, source, rows, broken, columns: source.kind === "libsvm" ? [] : guess(names, rows, source), name: await nameOf(file) });
      setError(null);
    } catch (caught) { setError({ message: `${file.name} cannot be read: ${caught.message}` }); }
  };
  return html`<h1>Import data${model && html` into <bdi>${model}</bdi>`}</h1>
    <${Problem} error=${error} />
    ${chosen ? html`<${Plan} key=${chosen.name} chosen=${chosen} model=${model} take=${take} close=${() => setChosen(null)} />` : html`
    <div class=${`drop ${over ? "over" : ""}`} onDragOver=${(e) => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}
      onDrop=${(e) => { e.preventDefault(); setOver(false); take(e.dataTransfer.files[0]); }}>
      <p>Drop a CSV, JSONL or LIBSVM file here, or</p>
      <p><label class="button">Choose a file <input ref=${field} class="hidden" type="file" accept=".csv,.tsv,.txt,.jsonl,.ndjson,.json,.libsvm,.svm,.svmlight" onChange=${(e) => take(e.target.files[0])} /></label></p>
      <p class="soft">Your browser reads the file and shows a preview. It sends nothing before you confirm.</p></div>`}
    ${uploads.map((upload) => html`<${Progress} key=${upload.number} upload=${upload} />`)}`;
}

function Plan({ chosen, model, take, close }) {
  const { file, source, rows, broken, name } = chosen;
  const [roles, setRoles] = useState({}); // the roles that the user chose, by the column's name
  const [choices, setChoices] = useState({}); // how numbers and dates are read, if the user chose it: {decimal, dates}
  const choose = ({ separator = source.separator, missing = source.missing, ...more }) => {
    setChoices((was) => ({ ...was, ...more }));
    if (separator !== source.separator || missing !== source.missing) take(file, { separator, missing });
  };
  const [stops, setStops] = useState(false);
  const [overview, lost] = usePolled(() => ask("GET", "overview"), null), all = overview?.models ?? [];
  const models = all.filter((m) => m.state === "serving").map((m) => m.model); // the models that can learn now
  const [chosenModel, setTarget] = useState(model ?? (may("admin") ? "" : null)), target = chosenModel ?? models[0] ?? null;
  const [fresh, setFresh] = useState(() => file.name.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 64) || "data");
  const [labelled, setLabelled] = useState(source.kind === "libsvm");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [seen, setSeen] = useState(null); // {model, costs, classes, form, features}: the chosen model, as the server described it last
  useEffect(() => {
    let left = false;
    if (target) ask("GET", `models/${path(target)}`).then(({ configuration, features, metrics }) => {
      if (left) return;
      setSeen({ model: target, costs: configuration.costs, classes: namesOf(metrics.confusion?.classes ?? []), form: configuration.features.type, features });
    }, setError);
    return () => { left = true; };
  }, [target]);
  const told = target === "" || seen?.model === target, ready = told && (target !== "" || Boolean(fresh)); // the model tells what is a feature: wait for it
  const guessed = target && told ? known(chosen.columns, seen.form, seen.features) : chosen.columns;
  const columns = readAs(guessed.map((c) => ({ ...c, use: roles[c.name] ?? c.use })), source, choices);
  const use = (i, what) => setRoles((was) => ({ ...was, ...Object.fromEntries(columns.filter((c) => ["label", "id"].includes(what) && c.use === what).map((c) => [c.name, "feature"])), [columns[i].name]: what }));
  const said = columns.find((c) => c.use === "label"), label = source.kind === "libsvm" ? labelled : Boolean(said);
  const begin = async (route) => {
    setBusy(true);
    setError(null);
    try {
      let to = target, form, dim = 0, base = 0;
      if (target === "") {
        if (all.some((m) => m.model === fresh)) throw new Error(`There is already a model ${fresh}. Choose it in the list, or give the new model another name`);
        to = fresh;
        let size = rows.length;
        if (size >= LOOKED_AT) { size = 0; for await (const line of linesOf(file)) if (line) size++; }
        const made = await configurationFor(source, columns, size);
        await ask("PUT", `models/${path(to)}`, made.configuration);
        ({ form, dim = 0 } = made);
      } else {
        const { configuration } = await ask("GET", `models/${path(to)}`);
        form = configuration.features.type;
        dim = configuration.features.dim ?? 0;
        const features = featuresOf(columns);
        if (form === "text" && features.length !== 1) throw new Error(`${to} takes one column of text; ${features.length} columns are chosen`);
        if (source.kind !== "libsvm" && form !== "named" && form !== "text" && features.length !== dim) throw new Error(`${to} takes ${dim} features; ${features.length} columns are chosen`);
        if (source.kind === "libsvm" && form !== "named") base = rows.every((r) => r.indices.every((i) => i > 0)) && rows.some((r) => r.indices.some((i) => i === dim)) ? 1 : 0;
      }
      const plan = { file, source, columns, model: to, form, dim, base, name, labelled, route, stops, classes: seen?.classes };
      const upload = new Upload(plan, changed);
      upload.number = uploads.length;
      uploads.unshift(upload);
      announce({ learn: "Sending the rows", predict: "Predicting", decide: "Deciding" }[route]);
      close();
      changed();
    } catch (caught) { setError(caught); }
    setBusy(false);
  };
  // The usual way comes first. Rows without a label, for a model that exists, are there to be predicted.
  const asks = Boolean(target) && !label, ways = [["learn", label ? "Send the rows" : "Send the rows to the pool"], ...(target ? [["predict", "Predict"]] : []),
    ...(ready && target && seen.costs ? [["decide", "Decide", "The server decides by the model's costs. Rows that a person should see go to the pool."]] : [])];
  if (asks) ways.reverse();
  return html`<section class="card"><div class="row"><h2><bdi>${file.name}</bdi> <small>${file.size < 1e5 ? `${(file.size / 2 ** 10).toFixed(1)} KiB` : `${(file.size / 2 ** 20).toFixed(1)} MiB`}, ${source.kind === "csv" ? "table" : source.kind.toUpperCase()}</small></h2>
      <span class="room"></span><button class="plain" onClick=${close}>Choose another file</button></div>
    ${columns.length > 0 ? html`<fieldset class="bare" disabled=${!told}><${Preview} columns=${columns} rows=${rows} source=${source} use=${use} choose=${choose} /></fieldset>
      ${target && told && seen.features?.names > seen.features?.fields?.length && html`<p class="soft">${target} has ${count(seen.features.names)} columns. The page knows the first ${count(seen.features.fields.length)}: check the roles of the remaining columns.</p>`}`
    : html`<${Vectors} rows=${rows} labelled=${labelled} setLabelled=${setLabelled} />`}
    ${broken.length > 0 && html`<p class="problem">${plural(broken.length, "row")} of the first ${count(rows.length + broken.length)} cannot be read. Row ${count(broken[0].number)}: ${broken[0].why}.</p>`}
    <p>${said && html`The label is <b><bdi>${said.name.slice(0, 60)}</bdi></b>: <${Listed} of=${[...new Set(said.cells.map((v) => shownLabel(labelOf(v))))].sort().map((name) => [name])} />. <button class="plain" onClick=${() => use(columns.indexOf(said), "feature")}>It is no label</button> `}${label ? "The model learns the rows with a label, in order. Rows without a label go to the pool." : asks ? `No column is the label. ${seen?.costs ? "Decide about" : "Predict"} the rows, or send them to the pool for labelling.` : "No column is the label, so all rows go to the pool for labelling."}</p>
    <form class="row" onSubmit=${(e) => { e.preventDefault(); begin(ways[0][0]); }}><label>Model <select aria-label="Model" value=${target ?? ""} onChange=${(e) => setTarget(e.target.value)}>${may("admin") && html`<option value="">New model</option>`}
        ${models.map((m) => html`<option value=${m}>${m}</option>`)}</select></label>
      ${target === "" && html`<label>Name <input value=${fresh} pattern=${NAME} title="letters, digits, . _ and -, beginning with a letter or a digit" maxlength="64" required onInput=${(e) => setFresh(e.target.value)} /></label>`}
      <label>Refused rows <select aria-label="Refused rows" value=${stops ? "stop" : "aside"} onChange=${(e) => setStops(e.target.value === "stop")}>
        <option value="aside">go into a file</option><option value="stop">stop the upload</option></select></label>
      ${ways.map(([route, word, title], i) => html`<button key=${route} type=${i ? "button" : "submit"} class=${i ? "" : "main"} title=${title} disabled=${busy || !ready}
        onClick=${i ? () => begin(route) : null}>${busy && !i ? "Preparing (a new solver may have to compile)" : word}</button>`)}</form>
    <${Problem} error=${error ?? lost} /></section>`;
}

// The state of a model after the rows were sent, and the next steps.
// The state of a model after an upload, and the next steps. asks: whether the upload brought questions and no label.
function Outcome({ model, asks }) {
  const [figures] = usePolled(() => ask("GET", `models/${path(model)}`), FIGURES_MS, [model]); // the figures may lag behind the rows
  if (!figures) return null;
  const said = standing({ figures }), { size } = figures.pool;
  const see = [link(model), figures.examples ? "See what it learned" : "See the model"], label = [link(model, "label"), size > 0 && `Label ${plural(size, "question")}`];
  return html`<p><b>${said.first}</b>${[said.more, ...said.rest].join("; ")}.</p>
    <ul class="steps" aria-label="Next steps">${(asks ? [label, see] : [see, label]).map(([href, text], i) => text && html`<li key=${href}><a class=${`button ${i ? "" : "main"}`} href=${href}>${text}</a></li>`)}</ul>`;
}

// The names of a count of rows, each with its number, the most frequent first.
const counted = (rows) => [...rows].sort((a, b) => b[1] - a[1]).map(([name, n]) => [name, ` in ${plural(n, "row")}`]);

function Progress({ upload }) {
  const { state, file } = upload;
  const total = upload.lines, word = upload.route === "decide" ? "decision" : "prediction";
  useEffect(() => {
    if (upload.lines !== undefined) return;
    upload.lines = null;
    (async () => { let n = 0; for await (const [] of upload.source.rows()) n++; upload.lines = n; changed(); })();
  }, [upload]);
  useEffect(() => {
    if (state !== "done") return;
    announce(`${file.name}: done`);
    if (!upload.answered) ask("GET", `models/${path(upload.model)}`).then((found) => { upload.warnings = found.features?.warnings ?? []; changed(); }, () => {});
  }, [state]);
  const save = async (name, blob) => {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await blob);
      link.download = `${file.name.replace(/\.[^.]*$/, "")}-${name}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      upload.error = null;
    } catch (error) { upload.error = { message: `${file.name} cannot be read again: ${error.message}` }; }
    changed();
  };
  const counts = upload.answered ? [plural(upload.answered.rows.size, word), upload.questions && `${count(upload.questions)} to the pool`].filter(Boolean)
    : [upload.learned && `${count(upload.learned)} learned`, upload.offered && `${count(upload.offered)} to the pool`, upload.repeated && `${count(upload.repeated)} already there`, !upload.sent && (state === "done" ? "nothing sent" : "nothing sent yet")].filter(Boolean);
  return html`<section class="card upload" aria-label=${`${file.name}, ${state}`} style=${{ marginTop: "0.9rem" }}>
    <div class="row"><h2><bdi>${file.name}</bdi> to <a href=${`#/models/${path(upload.model)}`}><bdi>${upload.model}</bdi></a></h2><span class="soft">${state}</span><span class="room"></span>
      ${state === "running" && html`<button onClick=${() => upload.stop()}>Stop</button>`}${state === "stopped" && html`<button onClick=${() => upload.resume()}>Resume</button>`}
      ${upload.answered && state === "done" && html`<button class="main" onClick=${() => save(`${word}s.csv`, upload.answered.file(upload.source))}>Save as CSV</button>`}</div>
    <${Bar} value=${state === "done" ? 1 : upload.read} max=${state === "done" ? 1 : total || 1e9} label=${`rows of ${file.name} that were sent`} />
    <p>${total ? `${plural(total, "row")}: ` : ""}${counts.join(", ")}${upload.refusedCount ? html`, <span class="problem">${count(upload.refusedCount)} refused (row ${count(upload.refused[0].number)}: ${upload.refused[0].reason})</span>` : ""}.</p>
    ${upload.answered?.labels.size > 0 && html`<p><${Listed} of=${counted(upload.answered.labels)} />.</p>`}
    ${state === "done" && upload.route === "decide" && !upload.answered.worth && html`<p>No row needs a person's look. Sort the saved file by <code>rank</code>: rank 1 has the highest expected cost. A <a href=${form(upload.model, "capacity")}>capacity</a> for a class ranks its rows.</p>`}
    ${upload.answered?.worth > 0 && html`<p><b>${count(upload.answered.worth)} of ${plural(upload.answered.rows.size, "row")} ${upload.answered.worth === 1 ? "is" : "are"} worth a look.</b> Sort the saved file by <code>rank</code>: rank 1 gains most.</p>`}
    ${upload.answered?.reasons.size > 0 && html`<p class="soft">Reasons: ${[...upload.answered.reasons].sort((a, b) => b[1] - a[1]).map(([reason, n]) => `${REASONS[reason]} in ${plural(n, "row")}`).join(", ")}.</p>`}
    ${state === "done" && html`<p>${upload.alerts > 0 && html`<a class="button" href=${link(upload.model, "decide")}>Work off ${plural(upload.alerts, "alert")}</a> `}
      ${upload.questions > 0 && html`<a class="button" href=${link(upload.model, "label")}>Label ${plural(upload.questions, "question")}</a>`}</p>`}
    <${Problem} error=${upload.error ?? upload.away} />
    <${Warnings} of=${upload.warnings ?? []} />
    ${state === "done" && !upload.answered && html`<${Outcome} model=${upload.model} asks=${upload.offered > 0 && !upload.learned} />`}
    <${Lacking} labels=${upload.lacking} />
    ${upload.outside.size > 0 && html`<p>Outside of what the model has learned: <${Listed} of=${counted(upload.outside)} />.</p>`}
    ${upload.refused.length > 0 && html`<p><button onClick=${() => save("refused.jsonl", upload.refusedFile())}>Save the refused rows</button></p>
      <details><summary>Show the refused rows</summary><div class="behind" tabindex="0" role="group" aria-label="Refused rows"><table>
      <thead><tr><th scope="col" class="number">Row</th><th scope="col">Id</th><th scope="col">Reason</th></tr></thead>
      <tbody>${upload.refused.slice(0, REFUSED_SHOWN).map((r) => html`<tr><td class="number">${count(r.number)}</td><td><bdi>${(r.id ?? "").slice(0, 60)}</bdi></td><td>${r.reason}</td></tr>`)}</tbody></table></div></details>`}</section>`;
}
