// A field for a value that the server's OpenAPI document describes: a number, a choice, texts, or several of them.

import { html, useState } from "./vendor/htm-preact.js";
import { shownLabel } from "./parts.js";

export const spoken = (name) => name.replaceAll("_", " ");

// A description of the server, in the words of this page: a field without a value is not set, and classes have their
// names.
export const told = (text) => text?.replaceAll("null:", "not set:").replaceAll(/,? named as in `scores`,?/g, "").replaceAll("`", "");

// An error of the server in the words of a form: without JSON, because the form shows the values.
export const worded = ({ message }) => ({ message: message.replace(/^configuration: (?:(\w+): (?=\1\b))?/, "").replace(/, such as \{.*?\}(?=, got |$)/, "").replace(/, got [{[].*$/s, "") });

// The schema behind a reference, without null. `none` says whether null is allowed.
export function plain(schema, all) {
  const { $ref, anyOf = [], ...own } = schema, rest = anyOf.filter((it) => it.type !== "null");
  const to = $ref ? all[$ref.split("/").at(-1)] : rest.length === 1 ? plain(rest[0], all) : { anyOf: rest };
  return { ...to, ...own, none: rest.length < anyOf.length };
}

// A value in words. Parts without a value are left out.
export function words(value) {
  if (value === null || value === undefined) return "not set";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(words).join(", ") || "none";
  if (typeof value !== "object") return String(value);
  const { type, ...more } = value, parts = Object.entries(more).filter(([, v]) => v !== null);
  return [...(type === undefined ? [] : [type]), ...parts.map(([name, v]) => `${spoken(name)}${v && typeof v === "object" && !Array.isArray(v) ? ` (${words(v)})` : `: ${words(v)}`}`)].join(", ");
}

// The schemas of the parts of an object, by name. A map has a part for each class; x-keys says what its keys are.
function partsOf(schema, value, classes, all) {
  const { properties = {}, propertyNames, additionalProperties: other, "x-keys": keys } = schema, found = { ...properties };
  delete found.type;
  const named = propertyNames?.const ? [propertyNames.const] : [...classes, ...Object.keys(value ?? {})];
  if (other) for (const name of named) found[name] ??= other;
  return Object.entries(found).map(([name, it]) => {
    const part = { ...plain(it, all), ...(it === other && keys ? { title: `${keys[0]} ${name}`, "x-keys": keys.slice(1) } : { title: spoken(name) }) };
    const choice = part.anyOf?.find((one) => (one.type === "object") === (typeof value?.[name] === "object" || !propertyNames?.const));
    return [name, part.anyOf?.some((one) => one.type === "object") ? { ...part, ...choice, anyOf: undefined } : part];
  });
}

// The value to send for an edited value, without the parts that were and are empty. Null if no part remains.
export function sent(schema, value, before, classes, all) {
  const to = chosen(schema, value, all);
  if (value === null || value === undefined || Array.isArray(value) || typeof value !== "object") return value ?? (schema.none ? null : schema.default);
  const entries = partsOf(to, value, classes, all).map(([name, part]) => {
    const now = sent({ ...part, none: true }, value[name], before?.[name], classes, all);
    return [name, now ?? (before?.[name] === null || before?.[name] === undefined || !(name in (to.properties ?? {})) ? undefined : part.default ?? null)];
  }).filter(([, v]) => v !== undefined);
  if (schema.none && value.type === undefined && entries.every(([, v]) => v === null)) return null;
  const kind = value.type === undefined ? {} : { type: value.type };
  return entries.length || value.type !== undefined || !schema.none ? { ...kind, ...Object.fromEntries(entries) } : null;
}

// The schema of the chosen kind, if there are kinds.
const chosen = (schema, value, all) => (schema.discriminator ? plain({ $ref: schema.discriminator.mapping[value?.type] ?? Object.values(schema.discriminator.mapping)[0] }, all) : schema);

const read = (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

// A field of texts, one a line. The typed text is a state, because each refresh of the view writes the field.
function Lines({ label, schema, value, set, about }) {
  const [text, setText] = useState((value ?? []).join("\n"));
  const change = (e) => {
    setText(e.target.value);
    const lines = e.target.value.split("\n").filter((line) => line.trim());
    set(lines.length || !schema.none ? lines.map((line) => (schema.prefixItems ? read(line) : line)) : null);
  };
  return html`<label>${label}, one a line <textarea name="value" rows="3" cols="30" value=${text} onInput=${change} />${about}</label>`;
}

export function Control({ label, schema, value, set, classes, all }) {
  const about = schema.description && html` <small>${told(schema.description)}</small>`;
  const listed = (options) => html`<label>${label} <select value=${JSON.stringify(value ?? null)} onChange=${(e) => set(JSON.parse(e.target.value))}>
    ${schema.none && html`<option value="null">not set</option>`}${options.map((it) => html`<option value=${JSON.stringify(it)} selected=${it === value}>${words(it)}</option>`)}</select>${about}</label>`;
  if (schema.enum) return listed(schema.enum);
  if (schema.type === "boolean") return listed([true, false]);
  const kinds = schema.discriminator && Object.keys(schema.discriminator.mapping), to = chosen(schema, value, all);
  if (to.properties || to.additionalProperties) {
    const begun = Object.values(value ?? {}).some((v) => v !== null && v !== undefined), needs = (name) => begun && to.required?.includes(name); // a half-filled group must be completed
    return html`<fieldset><legend>${label}</legend>${to.description && html`<p class="soft">${told(to.description)}</p>`}
      ${kinds && html`<label>type <select value=${value?.type} onChange=${(e) => set({ type: e.target.value })}>${kinds.map((it) => html`<option value=${it} selected=${it === value?.type}>${it}</option>`)}</select></label>`}
      ${partsOf(to, value, classes, all).map(([name, part]) => html`<${Control} key=${name} label=${part.title} schema=${{ ...part, none: !needs(name) }} value=${value?.[name]}
        set=${(v) => set({ ...value, [name]: v })} classes=${classes.filter((it) => it !== name)} all=${all} />`)}</fieldset>`;
  }
  if (schema.type === "number" || schema.type === "integer") {
    return html`<label>${label} <input name="value" type="number" step=${schema.type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} required=${!schema.none}
      placeholder=${schema.default ?? ""} value=${value ?? ""} onInput=${(e) => set(e.target.value === "" ? null : Number(e.target.value))} />${about}</label>`;
  }
  if (schema.type === "array") return html`<${Lines} label=${label} schema=${schema} value=${value} set=${set} about=${about} />`;
  const long = schema.maxLength > 1000, change = (e) => set(e.target.value === "" ? null : long ? e.target.value : read(e.target.value));
  return html`<label>${label} ${long ? html`<textarea rows="5" cols="48" maxlength=${schema.maxLength} value=${value ?? ""} onInput=${change} />` : html`<input name="value" required=${schema.none === false} value=${value ?? ""} onInput=${change} />`}${about}</label>`;
}

// The names of classes as the server's figures have them.
export const namesOf = (classes) => classes.map(shownLabel);
