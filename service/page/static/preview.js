// The first rows of a file: the type and the role of each column, how its cells are read, and which columns to leave out.

import { html } from "./vendor/htm-preact.js";
import { ORDERS } from "./dates.js";
import { Listed, percent, Warnings } from "./parts.js";
import { SEPARATORS } from "./read.js";

const SHOWN = 8; // number of rows in the preview
const ROLES = { feature: "feature", text: "words of a text", category: "category", label: "label", id: "id", leave: "leave out" };
const ONLY = { text: ["text"], category: ["text", "number"] }; // the types of the columns that may have a role; other roles are for all

const cut = (name) => name.slice(0, 60);
const shown = (v) => String(v === null || v === undefined ? "" : typeof v === "object" ? JSON.stringify(v) : v).slice(0, 80);

// How the dates or the decimal commas of a column are read, in a sentence.
const said = (c) => (c.orders.length ? `Dates such as ${String(c.cells[0]).slice(0, 30)} in "${cut(c.name)}" are ${c.order ? `read with the ${ORDERS[c.order]}` : "texts. Choose which part is the day"}.`
  : `Numbers with a decimal comma in "${cut(c.name)}" are ${c.type === "number" ? "read as numbers" : `texts. ${c.withComma ? "Choose how decimals are written" : "Write them with a decimal point"}`}.`);

export function Preview({ columns, rows, source, use, choose }) {
  const features = columns.filter((c) => c.use === "feature");
  return html`<div class="preview" tabindex="0" role="group" aria-label="Preview"><table>
      <thead><tr>${columns.map((c) => html`<th scope="col"><bdi>${cut(c.name)}</bdi> <small>${c.type}</small></th>`)}</tr>
        <tr>${columns.map((c, i) => html`<td><select aria-label=${`Role of column ${cut(c.name)}`} value=${c.use} onChange=${(e) => use(i, e.target.value)}>
          ${Object.entries(ROLES).map(([role, word]) => (ONLY[role]?.includes(c.type) ?? true) && html`<option value=${role}>${word}</option>`)}</select></td>`)}</tr></thead>
      <tbody>${rows.slice(0, SHOWN).map((row) => html`<tr>${columns.map((c) => html`<td class=${c.use === "leave" ? "left" : ""}><bdi>${shown(row[c.name])}</bdi></td>`)}</tr>`)}</tbody></table></div>
    <${Choices} features=${features} source=${source} choose=${choose} />
    ${features.filter((c) => c.order || (c.commas && c.type === "number")).map((c) => html`<p class="soft">${said(c)}</p>`)}
    <${Warnings} of=${features.filter((c) => (c.orders.length ? !c.order : c.commas && c.type !== "number")).map(said)} />
    <${Useless} columns=${columns} use=${use} />`;
}

// The columns from which a model learns little. A click leaves a column out, or brings it back.
function Useless({ columns, use }) {
  const found = columns.flatMap((c, i) => (c.useless && !c.unused && !["label", "id", "text"].includes(c.use) ? [[c, i]] : []));
  const unused = columns.flatMap((c, i) => (c.unused && c.use === "leave" ? [[c, i]] : [])), named = columns.some((c) => c.use === "id");
  const id = (c, i) => c.useless === "unlike" && !named && html` <button class="plain" onClick=${() => use(i, "id")}>${c.unused ? `${cut(c.name)} is the id` : "It is the id"}</button>`;
  return html`${unused.length > 0 && html`<p class="soft">The model does not use <${Listed} of=${unused.map(([c]) => [c.name])} />.${unused.map(([c, i]) => id(c, i))}</p>`}
    ${found.length > 0 && html`<ul class="warnings" aria-label="Columns to leave out">${found.map(([c, i]) => html`<li key=${c.name}>
    <bdi>"${cut(c.name)}"</bdi> ${c.useless === "unlike" ? "has another text in nearly every row" : `is missing in ${percent(c.missing, 0)} of the rows`}${c.use === "leave" ? ", so it is left out. " : ". "}
    ${c.use === "leave" ? html`<button class="plain" onClick=${() => use(i, c.useless === "unlike" ? "category" : "feature")}>Use ${cut(c.name)}</button>
      ${id(c, i)}`
      : html`<button class="plain" onClick=${() => use(i, "leave")}>Leave out ${cut(c.name)}</button>`}</li>`)}</ul>`}`;
}

// How the file is read: what separates cells and which texts are missing, and numbers and dates where the cells leave a
// choice.
function Choices({ features, source, choose }) {
  const dated = features.filter((c) => c.orders.length);
  const commas = source.kind === "csv" && features.some((c) => c.commas && c.withComma);
  return html`<p class="row">
    ${source.kind === "csv" && html`<label>Separator <select aria-label="Separator" value=${source.separator} onChange=${(e) => choose({ separator: e.target.value })}>
      ${Object.entries(SEPARATORS).map(([separator, word]) => html`<option value=${separator}>${word}</option>`)}</select></label>`}
    <label>Missing <input aria-label="Texts that count as missing" title="Texts that count as missing, with a comma between two. Empty cells always do" size="36" value=${source.missing.join(", ")}
      onChange=${(e) => choose({ missing: e.target.value.split(",").map((text) => text.trim()).filter(Boolean) })} /></label>
    ${dated.length > 0 && html`<label>Dates <select aria-label="Dates" value=${dated.find((c) => c.order)?.order ?? "text"} onChange=${(e) => choose({ dates: e.target.value })}>
      ${Object.entries(ORDERS).map(([order, word]) => html`<option value=${order}>${word}</option>`)}<option value="text">texts</option></select></label>`}
    ${commas && html`<label>Decimals <select aria-label="Decimals" value=${features.some((c) => c.comma) ? "," : "."} onChange=${(e) => choose({ decimal: e.target.value })}>
      <option value=".">after a point</option><option value=",">after a comma</option></select></label>`}</p>`;
}

// The first rows of a LIBSVM file.
export const Vectors = ({ rows, labelled, setLabelled }) => html`<div class="preview" tabindex="0" role="group" aria-label="Preview"><table>
    <thead><tr><th scope="col">Label</th><th scope="col">Features</th></tr></thead>
    <tbody>${rows.slice(0, SHOWN).map((row) => html`<tr><td><bdi>${row.label}</bdi></td>
      <td>${row.indices.slice(0, 8).map((i, k) => `${i}:${row.values[k]}`).join(" ")}${row.indices.length > 8 ? " …" : ""}</td></tr>`)}</tbody></table></div>
  <label class="tick"><input type="checkbox" checked=${labelled} onChange=${(e) => setLabelled(e.target.checked)} /> The first column is the label</label>`;
