// The settings of a model, in groups and in words, which the server's OpenAPI document has. An admin can change a
// setting, or try a change in a challenger first.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { Control, namesOf, plain, sent, spoken, told, worded, words } from "./controls.js";
import { announce, Dialog, NAME, plural, Problem } from "./parts.js";
import { fold } from "./standing.js";

let asked = null; // the schemas of the OpenAPI document, fetched once
const schemas = () => (asked ??= ask("GET", "openapi.json").then(({ components }) => components.schemas, (error) => { asked = null; throw error; }));

// The schema of the configuration of each solver, by the solver's name.
const bySolver = (all) => Object.fromEntries(Object.values(all).filter((it) => it["x-groups"]).flatMap((it) => {
  const { const: one, enum: several = [one] } = it.properties.solver;
  return several.map((name) => [name, it]);
}));

// said: the configuration without its defaults; a change of it loads the settings again. cost: the model's figures. part: whose form the address opens.
export function Configuration({ model, configuration: said, part, classes, cost, changed }) {
  const [edited, setEdited] = useState(null), [found, setFound] = useState(null), [error, setError] = useState(null);
  useEffect(() => {
    Promise.all([schemas(), ask("GET", `models/${path(model)}?full=true`)]).then(([all, { configuration }]) => setFound({ all, configuration }), setError);
  }, [model, JSON.stringify(said)]);
  useEffect(() => {
    const groups = found && bySolver(found.all)[found.configuration.solver]["x-groups"];
    const group = found && (groups.find((it) => it.parts.includes(part)) ?? (part in found.configuration ? groups[0] : null)); // the first has the solver's own parts
    if (group && may("admin")) setEdited({ name: part, group });
  }, [part, Boolean(found)]);
  if (!found) return error ? html`<${Problem} error=${error} />` : html`<p class="waiting">Loading…</p>`;
  const { all, configuration } = found, solvers = bySolver(all), schema = solvers[configuration.solver];
  const grouped = schema["x-groups"].flatMap((group) => group.parts), own = Object.keys(configuration).filter((name) => !grouped.includes(name));
  const of = (name) => ({ ...plain(schema.properties[name], all), ...(name === "solver" ? { enum: Object.keys(solvers).sort() } : {}) });
  return html`<section>${schema["x-groups"].map((group, i) => html`<h3>${group.title}</h3><p class="soft">${group.about}</p>
    <div class="scroll" tabindex="0" role="group" aria-label=${group.title}><table class="settings"><tbody>${[...group.parts, ...(i ? [] : own)].filter((name) => name in configuration).map((name) => html`<tr key=${name}>
      <th scope="row">${spoken(name)}${of(name).description && html`<small>${told(of(name).description)}</small>`}</th>
      <td>${name in said ? html`<b><bdi>${words(configuration[name])}</bdi></b>` : html`<span class="soft"><bdi>${words(configuration[name])}</bdi></span>`}</td>
      <td>${may("admin") && (schema["x-fixed"].includes(name) ? html`<small>fixed</small>` : html`
        <button class="plain" aria-label=${`Change ${spoken(name)}`} onClick=${() => setEdited({ name, group })}>Change</button>`)}</td></tr>`)}</tbody></table></div>`)}
    ${edited && html`<${Edit} model=${model} ...${edited} schema=${of(edited.name)} all=${all} classes=${namesOf(classes)} before=${configuration[edited.name]} cost=${cost} changed=${changed} close=${() => { setEdited(null); if (part) location.replace(fold(model, "settings")); }} />`}</section>`;
}

// A setting that takes effect at once needs no challenger.
function Edit({ model, name, group, schema, all, classes, before, cost: { examples, memory_bytes }, changed, close }) {
  const [value, setValue] = useState(before), [error, setError] = useState(null);
  const [rival, setRival] = useState(`other-${name.replaceAll("_", "-")}`); // a state, because each refresh of the view writes the field
  const save = async (event) => {
    event.preventDefault();
    const to = `models/${path(model)}`, change = { [name]: sent(schema, value, before, classes, all) };
    try {
      const tried = event.submitter?.name === "try";
      const answer = tried ? await ask("PUT", `${to}/shadows/${path(rival.trim())}`, change) : await ask("PATCH", to, change);
      announce(tried ? "The challenger learns the log" : answer.job ? "Retraining has started; the model serves meanwhile" : "Changed");
      changed();
      close();
      if (tried) location.hash = fold(model, "challengers"); // otherwise nothing on the screen tells that it was made
    } catch (caught) { setError(worded(caught)); }
  };
  const now = html`<button class=${group.at_once ? "main" : ""}>${group.at_once ? "Change" : "Change now"}</button>`;
  return html`<${Dialog} title=${`Change ${spoken(name)}`} close=${close}><form class="settings" onSubmit=${save}>
    <${Control} label=${spoken(name)} schema=${schema} value=${value} set=${setValue} classes=${classes} all=${all} />
    <${Problem} error=${error} />
    ${group.at_once ? html`<p class="row">${now}</p>` : html`
      <p class="soft">A challenger learns the model's ${plural(examples, "example")} from the log, then each new one beside the model. It takes about as much memory as the model (${(memory_bytes / 2 ** 20).toFixed(1)} MiB). You compare both, and promote the better.</p>
      <p class="row"><label>Name <input name="rival" value=${rival} onInput=${(e) => setRival(e.target.value)} pattern=${NAME} title="letters, digits, . _ and -, beginning with a letter or a digit" maxlength="64" required /></label>
        <button name="try" class="main">Try it as a challenger</button></p>
      <p class="row">${now}<span class="soft">The server may learn the ${plural(examples, "example")} again. The model serves meanwhile, and the page says how much time is left.</span></p>`}</form></${Dialog}>`;
}
