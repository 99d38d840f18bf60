// Keys and roles, for an admin of a server with keys: list, make and revoke keys.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, path, root, who } from "./api.js";
import { told } from "./controls.js";
import { announce, copied, Dialog, Instead, Problem, usePolled } from "./parts.js";

const EVERY_MS = 15_000;

export function People() {
  const [found, problem, again] = usePolled(() => ask("GET", "keys"), EVERY_MS);
  const [made, setMade] = useState(null), [revoked, setRevoked] = useState(null); // the new key with its text; the key to revoke
  const heading = useRef();
  if (problem?.status === 409) return html`<h1>People</h1><p class="empty">${problem.message[0].toUpperCase() + problem.message.slice(1)}. Then make further keys here.</p>`; // a server without keys
  if (!found) return html`<${Instead} title="People" error=${problem} again=${again} />`;
  const { keys, changeable, roles } = found;
  return html`<h1 tabindex="-1" ref=${heading}>People</h1><${Problem} error=${problem} again=${again} />
    ${made && html`<${Made} made=${made} close=${() => { setMade(null); heading.current.focus(); }} />`}
    <div class="scroll" tabindex="0" role="group" aria-label="Keys"><table class="keyring">
      <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">Models</th><th scope="col">Made</th>${changeable && html`<th scope="col">Actions</th>`}</tr></thead>
      <tbody>${keys.map((key) => html`<tr key=${key.name}><th scope="row"><bdi>${key.name}</bdi></th><td>${key.role}</td><td><bdi>${modelsOf(key)}</bdi></td><td title=${key.created_at}>${key.created_at && new Date(key.created_at).toLocaleDateString("en")}</td>
        ${changeable && html`<td>${key.name === who.name ? html`<span class="soft">your key</span>` : html`<button class="plain danger" aria-label=${`Revoke the key of ${key.name}`} onClick=${() => setRevoked(key)}>Revoke</button>`}</td>`}</tr>`)}</tbody></table></div>
    ${made ? null : changeable ? html`<${Make} roles=${roles} made=${(key) => { setMade(key); again(); }} />`
      : html`<p class="soft">The server may not write its key file, so keys cannot be changed here. <code>hinged keys</code> makes and revokes them where the file is.</p>`}
    <section class="card" aria-label="Roles"><h2>What each role may do</h2>
      <dl class="roles">${Object.entries(roles).map(([role, may], i) => html`<dt>${role}</dt><dd>${told(may)}${i > 0 && html` <span class="soft">(and what the roles above may)</span>`}</dd>`)}</dl></section>
    ${revoked && html`<${Revoke} name=${revoked.name} close=${() => setRevoked(null)} done=${() => { setMade((was) => (was?.name === revoked.name ? null : was)); setRevoked(null); again(); setTimeout(() => heading.current?.focus(), 0); /* the open dialog takes no focus outside */ }} />`}`;
}

const modelsOf = ({ models }) => (models.includes("*") ? "all models" : models.join(", "));

function Make({ roles, made }) {
  const [role, setRole] = useState("annotator"), [error, setError] = useState(null);
  const make = async (event) => {
    event.preventDefault();
    const { name, models } = event.target.elements, some = models.value.split(/[\s,]+/).filter(Boolean);
    try {
      made(await ask("POST", "keys", { name: name.value.trim(), role, ...(some.length ? { models: some } : {}) }));
    } catch (caught) { setError(caught); }
  };
  return html`<section class="card" aria-label="New key"><h2>Make a key</h2><form class="make" onSubmit=${make}>
    <label>Name of the person or program <input name="name" required maxlength="64" pattern="[A-Za-z0-9][A-Za-z0-9._@\\-]*" title="letters, digits, . _ @ and -, beginning with a letter or a digit" autocomplete="off" spellcheck=${false} /></label>
    <label>Role <select name="role" value=${role} onChange=${(e) => setRole(e.target.value)}>${Object.keys(roles).map((it) => html`<option value=${it} selected=${it === role}>${it}</option>`)}</select></label>
    <p class="soft">May ${told(roles[role])}.</p>
    <label>Models <input name="models" placeholder="all models" autocomplete="off" spellcheck=${false} aria-describedby="models-told" /> <small id="models-told">names, or beginnings of names such as fraud-*, with commas; empty: all models</small></label>
    <${Problem} error=${error} /><p><button class="main">Make a key</button></p></form></section>`;
}

// The text of a new key. Only this element has it, and loses it when it closes.
function Made({ made, close }) {
  const box = useRef(), first = useRef(), [said, setSaid] = useState("Copy");
  useEffect(() => { announce(`The key of ${made.name} is made`); first.current.focus(); }, []);
  return html`<section class="card attention" aria-label="The new key"><h2>The key of <bdi>${made.name}</bdi></h2>
    <p>Copy it now: it is not shown again. Send it to <bdi>${made.name}</bdi> in private, with the address <code>${new URL("ui", root).href}</code>.</p>
    <p class="row"><code class="secret" ref=${box}>${made.key}</code><button class="main" ref=${first} onClick=${async () => setSaid(await copied(made.key, box.current))}>${said}</button>
      <button onClick=${close}>Done</button></p></section>`;
}

// A key is revoked only after its name was typed.
function Revoke({ name, close, done }) {
  const [text, setText] = useState(""), [error, setError] = useState(null);
  const revoke = async (event) => {
    event.preventDefault();
    if (text.trim() !== name) return;
    try {
      await ask("DELETE", `keys/${path(name)}`);
      announce(`The key of ${name} is revoked`);
      done();
    } catch (caught) { setError(caught); }
  };
  return html`<${Dialog} title=${`Revoke the key of ${name}?`} close=${close}><form onSubmit=${revoke}>
    <p>People and programs with this key are refused from the next request on. This cannot be undone; you can make a new key with the same name.</p>
    <label>Type <b><bdi>${name}</bdi></b> to confirm <input name="confirm" autofocus autocomplete="off" spellcheck=${false} value=${text} onInput=${(e) => setText(e.target.value)} /></label>
    <${Problem} error=${error} /><p class="row"><button class="danger" disabled=${text.trim() !== name}>Revoke</button><button type="button" onClick=${close}>Keep the key</button></p></form></${Dialog}>`;
}
