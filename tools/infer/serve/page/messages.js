// messages.js: how messages are shown, and what one may do with them.

let follow = true, lastTop = 0;
const scroll = $('scroll'), atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 48;
function toEnd() {
  scroll.scrollTop = scroll.scrollHeight;
  lastTop = scroll.scrollTop;
  follow = true;
}

/** Changes the thread, and stays at its end if it was there. */
function following(change) {
  const was = follow;
  change();
  if (was) toEnd();
  $('latest').hidden = follow || atEnd();
}

const words = (m) => [m.tokens ? number(m.tokens) + (m.tokens === 1 ? ' token' : ' tokens') : '', m.rate ? m.rate.toFixed(m.rate < 100 ? 1 : 0) + ' tokens/s' : '',
  { stopped: 'stopped', length: 'cut at the max tokens', content_filter: 'cut by a filter' }[m.finish] || ''].filter(Boolean).join(' \u00b7 ');

/** A message on the page: root; update(ended) shows its text, foot() its buttons. */
class View {
  constructor(c, m) {
    this.c = c;
    this.m = m;
    this.shown = '';
    this.bottom = el('div', { class: 'foot' });
    if (m.role === 'assistant') {
      this.body = el('div', { class: 'md' });
      this.markdown = new Markdown(this.body);
      this.calls = el('div');
      this.root = el('article', { class: 'assistant', 'aria-label': 'Reply' }, this.body, this.calls, this.bottom);
      this.update(busy?.m !== m);
    } else if (m.role === 'tool') {
      this.root = el('article', { class: 'result', 'aria-label': 'Result of a tool' }, el('details', { class: 'aside' }, el('summary', {}, 'Result of ', el('b', {}, m.name || 'the tool')), el('pre', { tabindex: '0' }, m.content)));
    } else {
      this.said = el('div', { class: 'said' }, m.content);
      this.said.hidden = !m.content;
      this.root = el('article', { class: 'user', 'aria-label': 'You' }, ...(m.pictures ? [el('div', { class: 'pictures' }, ...m.pictures.map(shownPicture))] : []), this.said, this.bottom);
    }
  }

  update(ended) {
    const m = this.m;
    if (m.reasoning) {
      if (!this.thoughts) {
        this.thoughts = new Text();
        this.about = el('summary');
        this.root.prepend(el('details', { class: 'aside reasoning' }, this.about, el('div', { class: 'text', tabindex: '0' }, this.thoughts)));
      }
      this.thoughts.appendData(m.reasoning.slice(this.thoughts.length));
      const over = ended || m.content || m.calls;
      this.about.textContent = (over ? 'Reasoning' : 'Reasoning\u2026') + (m.thought >= 1 ? ' \u00b7 ' + Math.round(m.thought) + ' s' : '');
    }
    if (m.content) this.markdown.update(m.content, ended);
    if (m.calls) this.showCalls();
    if (!ended) {
      const rate = busy.parts > 4 && busy.last > busy.began ? '\u2248 ' + ((busy.parts - 1) * 1000 / (busy.last - busy.began)).toFixed(0) + ' tokens/s' : '';
      this.waiting ||= el('span', { class: 'told' }, el('span', { class: 'pulse' }, el('i'), el('i'), el('i')), ' ', el('span'));
      if (!this.waiting.parentNode) this.bottom.replaceChildren(this.waiting);
      this.waiting.lastChild.textContent = rate;
    }
  }

  /** The calls without a result; none when more than results follows. */
  unanswered() {
    const path = pathOf(this.c), after = path.slice(path.indexOf(this.m) + 1);
    return after.every((x) => x.role === 'tool') ? this.m.calls.filter((call) => !after.some((x) => x.call === call.id)) : [];
  }

  /** Calls of tools; at the end of the conversation, with places for their results. */
  showCalls() {
    const open = busy ? [] : this.unanswered();
    this.calls.replaceChildren(...this.m.calls.map((call) => this.call(call, open.includes(call))));
  }

  call(call, open) {
    let shown = call.arguments;
    try { shown = JSON.stringify(JSON.parse(shown), null, 2); } catch { /* as it came */ }
    const root = el('details', { class: 'aside call', open: true }, el('summary', {}, 'Calls ', el('b', {}, call.name || '\u2026')), el('pre', { tabindex: '0' }, shown));
    if (open) {
      const text = el('textarea', { rows: 1, 'aria-label': 'Result of ' + call.name, placeholder: 'What it returned', input: () => grow(text) });
      const give = () => this.answer(call, text.value);
      text.addEventListener('keydown', (e) => { if (isEnter(e)) { e.preventDefault(); give(); } });
      root.append(el('div', { class: 'answer' }, text, el('button', { class: 'plain', type: 'button', click: give }, 'Give result')));
    }
    return root;
  }

  answer(call, text) {
    if (busy) return;
    add(this.c, { role: 'tool', parent: this.c.leaf, content: text, call: call.id, name: call.name });
    save(this.c);
    if (this.unanswered().length) changed();
    else if (!this.c.gone) reply(this.c, this.c.leaf);
    (this.calls.querySelector('textarea') || $('text')).focus();
  }

  foot() {
    const m = this.m, c = this.c, twins = siblings(c, m), at = twins.indexOf(m);
    const state = [m.calls && c.leaf, busy?.m === m, !busy, at, twins.length, m.error, words(m)].join();
    if (m.role === 'tool' || state === this.shown) return;
    this.shown = state;
    this.root.setAttribute('aria-busy', busy?.m === m);
    if (busy?.m === m) return;
    if (m.calls) this.showCalls();
    const turn = (step) => {
      const index = views.indexOf(this);
      choose(c, twins[at + step]);
      changed();
      const [same, other] = step < 0 ? ['.before', '.after'] : ['.after', '.before'];
      (views[index].bottom.querySelector(same + ':enabled') || views[index].bottom.querySelector(other)).focus();
    };
    const parts = [tool('copy', 'Copy', (e) => copy(m.content, e.currentTarget))];
    if (m.role === 'user') parts.unshift(tool('edit', 'Edit', () => this.edit(), { disabled: !!busy }));
    else parts.push(tool('again', 'Write it again', () => again(c, m), { disabled: !!busy }));
    if (twins.length > 1) {
      parts.push(tool('left', 'Version before', () => turn(-1), { disabled: !!busy || at === 0, class: 'tool before' }), el('span', {}, at + 1 + ' / ' + twins.length),
        tool('right', 'Version after', () => turn(1), { disabled: !!busy || at + 1 === twins.length, class: 'tool after' }));
    }
    if (words(m)) parts.push(el('span', { class: 'told' }, words(m)));
    this.bottom.replaceChildren(...parts);
    if (this.trouble) this.trouble.remove();
    this.trouble = m.error ? el('div', { class: 'trouble', role: 'alert' }, el('span', {}, m.error), el('button', { class: 'plain', type: 'button', click: () => again(c, m), disabled: !!busy }, 'Try again')) : null;
    if (this.trouble) this.bottom.before(this.trouble);
  }

  edit() {
    const text = el('textarea', { 'aria-label': 'Edit the message', rows: 2, input: () => grow(text) });
    const end = () => { form.replaceWith(this.said); this.bottom.hidden = false; };
    const send = () => {
      if (busy || !(text.value.trim() || this.m.pictures)) return;
      end();
      add(this.c, { role: 'user', parent: this.m.parent, content: text.value, ...(this.m.pictures ? { pictures: this.m.pictures } : {}) });
      reply(this.c, this.c.leaf);
      $('text').focus();
    };
    const leave = () => { end(); this.bottom.querySelector('button').focus(); };
    const form = el('div', { class: 'edit', keydown: (e) => {
      if (isEnter(e) && e.target === text) { e.preventDefault(); send(); }
      if (e.key === 'Escape') { e.stopPropagation(); leave(); }
    } }, text, el('div', { class: 'row' }, el('button', { class: 'plain', type: 'button', click: leave }, 'Cancel'), el('button', { class: 'plain main-action', type: 'button', click: send }, 'Send')));
    text.value = this.m.content;
    this.said.replaceWith(form);
    this.bottom.hidden = true;
    grow(text);
    text.focus();
  }
}

const isEnter = (e) => e.key === 'Enter' && !e.shiftKey && !e.isComposing;

/** Another reply beside m; one that is nothing but an error goes. */
function again(c, m) {
  if (busy) return;
  if (m.error && !m.content && !m.reasoning && !m.calls && !c.messages.some((x) => x.parent === m.id)) c.messages = c.messages.filter((x) => x !== m);
  reply(c, m.parent);
  $('text').focus();
}

/** Brings the page to what the conversation is. Messages that are shown already stay. */
function changed() {
  const path = pathOf(current);
  let same = 0;
  while (same < views.length && views[same].m === path[same]) same++;
  following(() => {
    for (const v of views.splice(same)) v.root.remove();
    for (const m of path.slice(same)) {
      views.push(new View(current, m));
      $('thread').append(views[views.length - 1].root);
    }
    for (const v of views) {
      if (v.m === lastDrawn && !busy) v.update(true);
      v.foot();
    }
    $('hello').hidden = path.length > 0;
  });
  lastDrawn = busy?.m || null;
  if (busy) $('thread').setAttribute('aria-live', 'polite'); // until another conversation is shown: the end is read out, too
  showContext();
  showSend();
  listAll();
  document.title = current.title ? current.title + ' \u00b7 infer' : 'infer';
}
let lastDrawn = null;

function show(c) {
  current = c;
  views = [];
  $('thread').setAttribute('aria-live', 'off');
  $('thread').replaceChildren();
  follow = true;
  changed();
  if (models.length > 1) properties();
  drawer(false);
}

function showModel() {
  const name = modelOf(current);
  $('name').textContent = $('name').title = name || '';
  $('name').hidden = models.length > 1;
  $('model').hidden = models.length < 2;
  $('model').replaceChildren(...models.map((id) => el('option', { value: id }, id)));
  $('model').value = name;
  showAttach();
  $('hello').lastElementChild.textContent = served.chat === false ? name + ' has no chat template: it continues texts, and cannot hold a conversation.' :
    'Conversations are kept in this browser, and nowhere else.';
  showContext();
}

let draft = 0, drafting;
function showContext() {
  const used = (pathOf(current).findLast((m) => m.used)?.used || 0), most = Number.isFinite(served.context) ? served.context : 0;
  $('meter').hidden = !most || !used;
  if (most) $('meter').value = Math.min(1, used / most);
  const parts = [used ? number(used) + (most ? ' of ' + number(most) : '') + ' tokens of context' : most ? 'context of ' + number(most) + ' tokens' : ''];
  if (draft) parts.push('message: ' + number(draft));
  $('used').textContent = parts.filter(Boolean).join(' \u00b7 ');
}

/** How many tokens the message has, some time after it was written. */
function countDraft() {
  clearTimeout(drafting);
  const text = $('text').value;
  if (!text.trim()) {
    draft = 0;
    showContext();
    return;
  }
  drafting = setTimeout(async () => {
    try {
      const r = await (await request('tokenize', { content: text, ...(models.length > 1 ? { model: modelOf(current) } : {}) }, null, true)).json();
      if ($('text').value === text && Array.isArray(r.tokens)) draft = r.tokens.length;
    } catch { /* it is only a hint */ }
    showContext();
  }, 500);
}

function showSend() {
  $('send').setAttribute('aria-label', busy ? 'Stop' : 'Send');
  $('send').title = busy ? 'Stop (Esc)' : 'Send (Enter)';
  setIcon($('send'), busy ? 'stop' : 'send');
  $('send').disabled = !busy && (reading > 0 || !($('text').value.trim() || attached.length));
}

function send() {
  if (busy || reading || !($('text').value.trim() || attached.length)) return;
  const c = current;
  add(c, { role: 'user', parent: c.leaf, content: $('text').value, ...(attached.length ? { pictures: attached } : {}) });
  attached = [];
  showAttached();
  $('text').value = '';
  draft = 0;
  clearTimeout(drafting);
  grow($('text'));
  save(c);
  if (!c.gone) reply(c, c.leaf);
}
