// page.js: the list of conversations, settings, and what one does.

let listed = '';
/** Makes the list anew when names or their order changed. Its buttons ask for the conversation: another tab may have replaced it. */
function listAll() {
  const sorted = newestFirst(), state = JSON.stringify(sorted.map((c) => [c.id, c.title, c === current]));
  if (state === listed || $('list').querySelector('input')) return;
  listed = state;
  const focused = document.activeElement?.closest('#list li')?.dataset.id;
  $('list').replaceChildren(...sorted.map((c) => el('li', { class: c === current ? 'current' : null, 'data-id': c.id },
    el('button', { class: 'open', 'aria-current': c === current ? 'true' : null, title: c.title, click: () => { show(all.get(c.id)); $('text').focus(); } }, c.title || 'Untitled'),
    el('span', { class: 'acts' }, tool('edit', 'Rename', (e) => rename(all.get(c.id), e.currentTarget.closest('li'))), tool('save', 'Export', () => exportThem([all.get(c.id)])), tool('bin', 'Delete', () => remove(all.get(c.id)))))));
  if (!sorted.length) $('list').append(el('li', { class: 'empty' }, 'None yet'));
  if (focused) $('list').querySelector('[data-id="' + CSS.escape(focused) + '"] .open')?.focus();
}

function rename(c, item) {
  const input = el('input', { 'aria-label': 'Name of the conversation', maxlength: 200 });
  const end = (keep) => {
    if (!input.isConnected) return;
    if (keep && input.value.trim()) c.title = input.value.trim();
    input.remove();
    listed = '';
    save(c);
    changed();
    $('list').querySelector('[data-id="' + CSS.escape(c.id) + '"] .open').focus();
  };
  input.value = c.title;
  input.addEventListener('keydown', (e) => {
    if (isEnter(e)) end(true);
    if (e.key === 'Escape') { e.stopPropagation(); end(false); }
  });
  input.addEventListener('blur', () => setTimeout(() => end(true)));
  item.replaceChildren(input);
  input.select();
}

/** It is in the list no more, its reply ends, and nothing saves it but Undo. */
function drop(c, how) {
  if (busy?.c === c) busy.stop.abort();
  all.delete(c.id);
  kept.delete(c.id);
  c.gone = true;
  if (current === c) show(fresh());
  else changed();
  notice('\u201c' + (c.title.length > 40 ? c.title.slice(0, 40) + '\u2026' : c.title) + '\u201d was deleted' + how + '.', 'Undo', () => { delete c.gone; save(c); show(c); });
}

function removedElsewhere(c) { drop(c, ' in another tab'); }

function remove(c) {
  try { storage?.removeItem('infer.c.' + c.id); } catch { /* was not kept */ }
  drop(c, '');
  ($('list').querySelector('.open') || $('text')).focus();
}

function drawer(open) {
  const was = document.body.classList.contains('drawer');
  document.body.classList.toggle('drawer', open);
  document.querySelector('main').inert = open;
  $('shut').hidden = !open;
  $('menu').setAttribute('aria-expanded', open);
  if (open) $('new').focus();
  else if (was) $('menu').focus();
}

function showSettings() {
  for (const name of ['system', 'tools', ...sampling]) $(name).value = current.settings[name] ?? '';
  readSettings();
  $('sheet').showModal();
}

/** Takes what is valid of the settings, for this conversation and those that begin later. */
function readSettings() {
  const s = { model: current.settings.model };
  let why = '';
  for (const name of sampling) if ($(name).value && $(name).validity.valid) s[name] = Number($(name).value);
  if ($('system').value.trim()) s.system = $('system').value;
  if ($('tools').value.trim()) {
    try {
      if (Array.isArray(JSON.parse($('tools').value))) s.tools = $('tools').value;
      else why = '\u2013 no array';
    } catch {
      why = '\u2013 no JSON';
    }
  }
  $('tools-why').textContent = why;
  $('tools').classList.toggle('wrong', !!why);
  keepSettings(cleanSettings(s));
}

function keepSettings(s) {
  current.settings = s;
  save(current);
  try { store('infer.settings', JSON.stringify(s)); } catch { /* for this conversation, then */ }
}

function theme(chosen) {
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

function newOne() {
  show(fresh());
  $('text').focus();
}

function listen() {
  listenForPictures();
  const on = (id, what, act) => $(id).addEventListener(what, act);
  on('text', 'input', () => { grow($('text')); showSend(); countDraft(); });
  on('text', 'keydown', (e) => { if (isEnter(e)) { e.preventDefault(); send(); } });
  on('send', 'click', () => { if (busy) busy.stop.abort(); else send(); $('text').focus(); });
  on('new', 'click', newOne);
  on('menu', 'click', () => drawer(true));
  on('shut', 'click', () => drawer(false));
  on('veil', 'click', () => drawer(false));
  on('export', 'click', () => exportThem([...all.values()]));
  on('import', 'click', () => $('file').click());
  on('file', 'change', async () => { if ($('file').files.length) await importFile($('file').files[0]); $('file').value = ''; });
  on('model', 'change', () => { keepSettings({ ...current.settings, model: $('model').value }); properties(); });
  on('settings', 'click', showSettings);
  on('sheet', 'input', readSettings);
  on('reset', 'click', () => { for (const name of ['system', 'tools', ...sampling]) $(name).value = ''; readSettings(); });
  for (const button of document.querySelectorAll('#sheet .shut')) button.addEventListener('click', () => $('sheet').close());
  on('theme', 'click', () => {
    const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light', next = (document.documentElement.dataset.theme || system) === 'dark' ? 'light' : 'dark';
    theme(next === system ? '' : next);
    try { store('infer.theme', next === system ? '' : next); } catch { /* for this page, then */ }
  });
  on('latest', 'click', () => { toEnd(); $('latest').hidden = true; $('text').focus(); });
  on('scroll', 'scroll', () => { // up is the reader's wish; other movements come from the layout
    if (atEnd()) follow = true;
    else if (scroll.scrollTop < lastTop) follow = false;
    lastTop = scroll.scrollTop;
    $('latest').hidden = follow;
  });
  new ResizeObserver(() => { if (follow) toEnd(); }).observe(scroll);
  addEventListener('resize', () => grow($('text')));
  document.addEventListener('keydown', (e) => {
    if (e.key !== 'Escape' || document.querySelector('dialog[open]')) return;
    if (document.body.classList.contains('drawer')) drawer(false);
    else if (busy) busy.stop.abort();
  });
  addEventListener('pagehide', () => { // the reply ends with the page, and what came is kept
    if (!busy) return;
    busy.m.finish = 'stopped';
    busy.stop.abort();
    save(busy.c);
  });
  addEventListener('storage', (e) => { // another tab wrote
    const id = e.key?.startsWith('infer.c.') ? e.key.slice(8) : null;
    if (!id) return;
    const mine = busy?.c.id === id ? busy.c : current.id === id ? current : all.get(id);
    if (e.newValue === null) { // it was removed
      if (mine && (mine === current || mine === busy?.c)) removedElsewhere(mine);
      else { all.delete(id); kept.delete(id); listAll(); }
      return;
    }
    if (busy?.c.id === id) return;
    const c = clean(parsed(e.newValue));
    if (c) { all.set(id, c); kept.add(id); }
    else all.delete(id);
    if (current.id === id && c) show(c);
    else listAll();
  });
}

theme(stored('infer.theme'));
loadAll();
listen();
show(newestFirst()[0] || fresh());
showModel();
start();
$('text').focus();
