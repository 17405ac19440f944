// server.js: requests, the key, and replies as they come.

let key = (() => { try { return sessionStorage.getItem('infer.key') || ''; } catch { return ''; } })();
let asking = null;

/** Asks for the key, once for all who need it; whether one was given. */
function ask() {
  asking ||= new Promise((answer) => {
    $('ask-why').textContent = key ? '\u2013 the last one was refused' : '';
    $('key').value = '';
    const end = (given) => {
      asking = null;
      if (given) {
        key = $('key').value.trim();
        try { sessionStorage.setItem('infer.key', key); } catch { /* kept in this page then */ }
      }
      $('key').value = '';
      $('ask').onclose = null;
      $('ask').close();
      answer(given);
    };
    $('ask').querySelector('form').onsubmit = (e) => { e.preventDefault(); end(true); };
    $('ask-not').onclick = () => end(false);
    $('ask').onclose = () => end(false);
    $('ask').showModal();
  });
  return asking;
}

/** fetch with the key; asks for one when the server does, unless it may not. The body is JSON. */
async function request(path, body, signal, quiet) {
  for (;;) {
    const used = key, headers = {};
    if (used) headers.Authorization = 'Bearer ' + used;
    if (body) headers['Content-Type'] = 'application/json';
    let r;
    try {
      r = await fetch(path, { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), signal, cache: 'no-store' });
    } catch (e) {
      if (e.name === 'AbortError') throw e;
      throw new Error('The server does not answer.');
    }
    if (r.ok) return r;
    if (r.status === 401 && !quiet && (used !== key || await ask())) continue;
    let said = null;
    try { said = (await r.json()).error; } catch { /* no JSON */ }
    const wait = r.headers.get('Retry-After');
    throw new Error((isText(said?.message) ? said.message : isText(said) ? said : 'The server answers with status ' + r.status + '.') + (wait && /^\d+$/.test(wait) ? ' Try again in ' + wait + ' s.' : ''));
  }
}

async function connect() {
  const list = (await (await request('v1/models')).json()).data;
  models = (Array.isArray(list) ? list : []).map((m) => m?.id).filter(isText);
  if (!models.length) throw new Error('The server has no models.');
  await properties();
}

const modelOf = (c) => (models.includes(c.settings.model) ? c.settings.model : models[0]);

/** What the server says about the model; of several, only about one that it names. */
async function properties() {
  const model = modelOf(current), several = models.length > 1;
  let said = {};
  try { said = await (await request(several ? 'props?model=' + encodeURIComponent(model) : 'props')).json(); } catch { /* nothing */ }
  if (modelOf(current) !== model) return; // another was chosen meanwhile
  served = several && said?.model !== model ? {} : said || {};
  showModel();
}

function start() {
  connect().catch((e) => notice(e.message, 'Try again', start));
}

/** The data of server-sent events, in order. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', data = [];
  for (;;) {
    const { value, done } = await reader.read().catch((e) => {
      throw e.name === 'AbortError' ? e : new Error('The connection was lost.');
    });
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (let line of lines) {
      if (line.endsWith('\r')) line = line.slice(0, -1);
      if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
      else if (!line && data.length) yield data.splice(0).join('\n');
    }
  }
}

/** The messages before m as the interface has them. */
function history(c, m) {
  const out = c.settings.system ? [{ role: 'system', content: c.settings.system }] : [];
  for (const x of pathOf({ messages: c.messages, leaf: m.parent })) {
    if (x.role === 'tool') out.push({ role: 'tool', tool_call_id: x.call, content: x.content });
    else if (x.role === 'user') out.push({ role: 'user', content: x.pictures ? [...x.pictures.map((url) => ({ type: 'image_url', image_url: { url } })), ...(x.content ? [{ type: 'text', text: x.content }] : [])] : x.content });
    else if (x.calls) out.push({ role: 'assistant', content: x.content || null, tool_calls: x.calls.map((t) => ({ id: t.id, type: 'function', function: { name: t.name, arguments: t.arguments } })) });
    else if (x.content) out.push({ role: 'assistant', content: x.content });
  }
  return out;
}

function take(m, delta) {
  if (isText(delta.reasoning_content)) m.reasoning = (m.reasoning || '') + delta.reasoning_content;
  if (isText(delta.content)) m.content += delta.content;
  for (const part of Array.isArray(delta.tool_calls) ? delta.tool_calls : []) {
    m.calls ||= [];
    const at = Number.isInteger(part.index) && part.index >= 0 && part.index < 256 ? part.index : m.calls.length;
    while (m.calls.length <= at) m.calls.push({ id: '', name: '', arguments: '' });
    const call = m.calls[at];
    if (isText(part.id)) call.id = part.id;
    if (isText(part.function?.name)) call.name += part.function.name;
    if (isText(part.function?.arguments)) call.arguments += part.function.arguments;
  }
}

/** Has the reply to the message parent written, at the end of its branch. */
async function reply(c, parent) {
  const m = add(c, { role: 'assistant', parent, content: '' }), stop = new AbortController();
  busy = { c, m, stop, began: 0, last: 0, parts: 0, saved: Date.now(), drawn: false };
  changed();
  toEnd();
  $('status').textContent = 'The reply is being written';
  try {
    if (!models.length) await connect();
    const body = { model: modelOf(c), messages: history(c, m), stream: true, stream_options: { include_usage: true } };
    for (const name of sampling) if (c.settings[name] !== undefined) body[name] = c.settings[name];
    if (c.settings.tools) body.tools = JSON.parse(c.settings.tools);
    let ended = false;
    for await (const data of events(await request('v1/chat/completions', body, stop.signal))) {
      if ((ended = data === '[DONE]')) break;
      let chunk;
      try { chunk = JSON.parse(data); } catch { throw new Error('The server sent what is no JSON.'); }
      if (chunk.error) throw new Error(isText(chunk.error.message) ? chunk.error.message : 'The server reports an error.');
      const choice = chunk.choices?.[0];
      if (choice?.delta) {
        take(m, choice.delta);
        if (choice.delta.content || choice.delta.reasoning_content || choice.delta.tool_calls) timed(m);
      }
      if (isText(choice?.finish_reason)) m.finish = choice.finish_reason;
      if (chunk.usage) counted(m, chunk.usage);
      draw();
    }
    if (!ended) throw new Error('The connection ended before the reply did.');
  } catch (e) {
    if (stop.signal.aborted) m.finish = 'stopped';
    else m.error = e.message;
  }
  stop.abort();
  $('status').textContent = m.error ? '' : m.finish === 'stopped' ? 'Stopped' : 'The reply is complete';
  busy = null;
  c.updated = Date.now();
  save(c);
  changed();
}

function timed(m) {
  busy.last = performance.now();
  busy.began ||= busy.last;
  busy.parts++;
  if (m.reasoning && !m.content && !m.calls) m.thought = (busy.last - busy.began) / 1000;
  if (Date.now() - busy.saved > 2000) {
    busy.saved = Date.now();
    save(busy.c);
  }
}

function counted(m, usage) {
  if (Number.isFinite(usage.completion_tokens)) {
    m.tokens = usage.completion_tokens;
    if (m.tokens > 1 && busy.last > busy.began) m.rate = (m.tokens - 1) * 1000 / (busy.last - busy.began);
  }
  if (Number.isFinite(usage.total_tokens)) m.used = usage.total_tokens;
}

/** Shows what has come, once a frame. */
function draw() {
  if (busy.drawn) return;
  busy.drawn = true;
  requestAnimationFrame(() => {
    if (!busy) return;
    busy.drawn = false;
    const view = views.find((v) => v.m === busy.m);
    if (!view) return;
    following(() => view.update(false));
  });
}
