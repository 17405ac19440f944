// conversations.js: a tree of messages each, of which the way to the leaf is shown; kept in the browser.

const MOST_CONVERSATIONS = 300, MOST_IMPORT = 32 << 20;
const all = new Map(), kept = new Set(); // kept: the ids that storage has, as far as this tab knows
let current, busy = null, models = [], served = {}, views = [];
const storage = (() => { try { return window.localStorage; } catch { return null; } })();
const sampling = ['temperature', 'top_p', 'min_p', 'top_k', 'max_completion_tokens', 'seed'];
const identifier = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), (n) => n.toString(36)).join('');
const isText = (x) => typeof x === 'string';

function stored(key) {
  try { return storage && storage.getItem(key); } catch { return null; }
}

function store(key, value) {
  if (!storage) throw new Error('this browser keeps nothing for this page');
  storage.setItem(key, value);
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return null; }
}

/** Settings as they may be, whatever was read. */
function cleanSettings(v) {
  const s = {};
  for (const name of ['system', 'tools', 'model']) if (isText(v?.[name]) && v[name]) s[name] = v[name];
  for (const name of sampling) if (Number.isFinite(v?.[name])) s[name] = v[name];
  return s;
}

/** A conversation from anything that was stored or imported, only what is understood; null = it is none. */
function clean(v) {
  if (!v || !isText(v.id) || !Array.isArray(v.messages)) return null;
  const ids = new Set(), messages = [];
  for (const m of v.messages) {
    if (!m || !isText(m.id) || ids.has(m.id) || !['user', 'assistant', 'tool'].includes(m.role) || !isText(m.content)) return null;
    if (m.parent !== null && !ids.has(m.parent)) return null;
    const out = { id: m.id, parent: m.parent, role: m.role, content: m.content };
    for (const name of ['reasoning', 'error', 'finish', 'call', 'name']) if (isText(m[name])) out[name] = m[name];
    for (const name of ['tokens', 'used', 'rate', 'thought']) if (Number.isFinite(m[name])) out[name] = m[name];
    if (Array.isArray(m.pictures) && m.pictures.every(isPicture) && m.pictures.length <= MOST_PICTURES) out.pictures = m.pictures.slice();
    if (Array.isArray(m.calls)) out.calls = m.calls.map((call) => Object.fromEntries(['id', 'name', 'arguments'].map((name) => [name, isText(call?.[name]) ? call[name] : ''])));
    ids.add(m.id);
    messages.push(out);
  }
  if (!messages.length) return null;
  return { id: v.id, title: isText(v.title) ? v.title : '', updated: Number.isFinite(v.updated) ? v.updated : 0, settings: cleanSettings(v.settings), messages,
    leaf: ids.has(v.leaf) ? v.leaf : messages[messages.length - 1].id };
}

function loadAll() {
  const damaged = [];
  for (let i = 0, key; storage && (key = storage.key(i)) !== null; i++) {
    if (!key.startsWith('infer.c.')) continue;
    const c = clean(parsed(stored(key)));
    if (c && 'infer.c.' + c.id === key) all.set(c.id, c), kept.add(c.id);
    else damaged.push(key);
  }
  if (damaged.length) {
    notice((damaged.length === 1 ? 'A stored conversation is' : damaged.length + ' stored conversations are') + ' damaged and cannot be shown.', 'Remove',
      () => damaged.forEach((key) => storage.removeItem(key)));
  }
}

let unsaved = false;
function save(c) {
  if (!c.messages.length || c.gone) return;
  if (kept.has(c.id) && stored('infer.c.' + c.id) === null) { removedElsewhere(c); return; }
  all.set(c.id, c);
  try {
    if (all.size > MOST_CONVERSATIONS && stored('infer.c.' + c.id) === null) throw new Error(MOST_CONVERSATIONS + ' are kept');
    store('infer.c.' + c.id, JSON.stringify(c));
    kept.add(c.id);
    unsaved = false;
  } catch (e) {
    if (!unsaved) notice('This conversation is not kept: ' + (e.name === 'QuotaExceededError' ? 'the storage of the browser is full' : e.message) + '. Export it, or delete others.', 'Export', () => exportThem([c]));
    unsaved = true;
  }
}

function fresh() {
  return { id: identifier(), title: '', updated: Date.now(), settings: cleanSettings(parsed(stored('infer.settings'))), messages: [], leaf: null };
}

const newestFirst = () => [...all.values()].sort((a, b) => b.updated - a.updated);

const find = (c, id) => c.messages.find((m) => m.id === id);
const siblings = (c, m) => c.messages.filter((x) => x.parent === m.parent);

function add(c, m) {
  c.messages.push(Object.assign(m, { id: identifier() }));
  c.leaf = m.id;
  c.updated = Date.now();
  if (!c.title && m.role === 'user') c.title = m.content.trim().replace(/\s+/g, ' ').slice(0, 80) || 'Picture';
  return m;
}

function pathOf(c) {
  const path = [];
  for (let m = find(c, c.leaf); m; m = find(c, m.parent)) path.unshift(m);
  return path;
}

/** Shows the branch of a message, to the end that was written last. */
function choose(c, m) {
  for (let next = m; next; next = c.messages.findLast((x) => x.parent === next.id)) c.leaf = next.id;
  save(c);
}

function exportThem(list) {
  const name = list.length === 1 ? list[0].title.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 40) || 'conversation' : 'conversations';
  const url = URL.createObjectURL(new Blob([JSON.stringify({ format: 'infer-conversations', version: 1, conversations: list }, null, 1)], { type: 'application/json' }));
  el('a', { href: url, download: name + '.json' }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function importFile(file) {
  let list = null;
  try {
    if (file.size <= MOST_IMPORT) list = JSON.parse(await file.text()).conversations;
  } catch { /* no JSON */ }
  const found = Array.isArray(list) ? list.map(clean).filter(Boolean) : [];
  let n = 0;
  for (const c of found) {
    const same = all.get(c.id);
    if (same && JSON.stringify(clean(same)) === JSON.stringify(c)) continue;
    if (same) c.id = identifier();
    save(c);
    n++;
  }
  listAll();
  if (!Array.isArray(list)) notice(file.size > MOST_IMPORT ? 'That file is larger than 32 MB.' : 'That file holds no conversations.');
  else if (!unsaved) notice('Imported: ' + n + '. Already here: ' + (found.length - n) + '. Not understood: ' + (list.length - found.length) + '.');
}
