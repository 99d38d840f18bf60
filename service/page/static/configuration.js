// The configuration of a model. An admin can change it, or try a change in a challenger first.

import { html, useState } from "./vendor/htm-preact.js";
import { ask, may, path } from "./api.js";
import { announce, Dialog, NAME, Problem } from "./parts.js";

const FIXED = ["features", "classes"]; // parts that nobody can change after the model is created

// said: the configuration without its defaults. whole: the configuration with its defaults, fetched only when needed.
export function Configuration({ model, configuration: said, changed }) {
  const [edited, setEdited] = useState(null), [whole, setWhole] = useState(null);
  const configuration = whole ?? said;
  const showAll = async () => setWhole((await ask("GET", `models/${path(model)}?full=true`)).configuration);
  return html`<section>
    <div class="scroll" tabindex="0" role="group" aria-label="Configuration"><table><tbody>${Object.entries(configuration).map(([name, value]) => html`<tr><th scope="row">${name}</th>
      <td><bdi class="code">${JSON.stringify(value)}</bdi></td>
      <td>${may("admin") && (FIXED.includes(name) ? html`<small>fixed</small>` : html`
        <button class="plain" aria-label=${`Change ${name}`} onClick=${() => setEdited(name)}>Change</button>`)}</td></tr>`)}</tbody></table></div>
    <button class="plain" onClick=${whole ? () => setWhole(null) : showAll}>${whole ? "Hide" : "Show"} the defaults</button>
    ${edited && html`<${Edit} model=${model} name=${edited} value=${configuration[edited]} changed=${() => { setWhole(null); changed(); }} close=${() => setEdited(null)} />`}</section>`;
}

function Edit({ model, name, value, changed, close }) {
  const [error, setError] = useState(null);
  const save = async (event) => {
    event.preventDefault();
    const form = event.target, to = `models/${path(model)}`;
    try {
      const change = { [name]: JSON.parse(form.elements.value.value) };
      const rival = form.elements.rival.value.trim();
      const answer = rival ? await ask("PUT", `${to}/shadows/${path(rival)}`, change) : await ask("PATCH", to, change);
      announce(answer.job ? "Retraining has started; the model serves meanwhile" : "Changed");
      changed();
      close();
    } catch (caught) {
      setError(caught instanceof SyntaxError ? { message: `This is not JSON: ${caught.message}` } : caught);
    }
  };
  return html`<${Dialog} title=${`Change ${name}`} close=${close}><form onSubmit=${save}>
    <label>${name} as JSON <textarea name="value" class="code" rows="4" cols="48" spellcheck=${false}>${JSON.stringify(value)}</textarea></label>
    <p class="soft">If the solver cannot change this in place, the server retrains the model from its log. The model serves meanwhile.</p>
    <label>Or try the change first as a challenger named <input name="rival" pattern=${NAME} title="letters, digits, . _ and -, beginning with a letter or a digit" maxlength="64" /></label>
    <${Problem} error=${error} />
    <p class="row"><button class="main">Change</button></p></form></${Dialog}>`;
}
