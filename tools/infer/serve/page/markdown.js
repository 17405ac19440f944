// markdown.js: nodes from the text of a model, never by way of HTML; texts that grow.

const MOST_DEPTH = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/, HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/, RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/, ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$/;
const COLUMNS = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const SPECIAL = /[\\`*_~[!<h\n]/g, ADDRESS = /https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_~|]/y, ANGLES = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/y;
const LINK = /!?\[((?:[^[\]\\]|\\[^]|\[[^[\]]*\]){0,500})\]\([ \n]*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const NAMED = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', '#39': "'" };

function matchAt(expression, text, at) {
  expression.lastIndex = at;
  return expression.exec(text);
}

/** The address of a link that may be followed, or null. */
function address(text) {
  try {
    const url = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const link = (href) => el('a', { href, rel: 'noopener noreferrer', target: '_blank' });

/** Where the run of characters that ends what mark began stands, or -1; code between is skipped. */
function closing(text, from, mark) {
  const stops = /\\[^]|`+|([*_~])\1*/g;
  stops.lastIndex = from;
  for (let m; (m = stops.exec(text));) {
    const run = m[0].length;
    if (m[0][0] === '`') {
      const end = closingCode(text, m.index + run, run);
      if (end >= 0) stops.lastIndex = end + run;
    } else if (m[0][0] === mark[0] && (run === mark.length || (run === 3 && mark[0] !== '~')) && m.index > from && /\S/.test(text[m.index - 1]) &&
               !(mark[0] === '_' && /[\p{L}\p{N}]/u.test(text[m.index + run] || ''))) {
      return m.index + run - mark.length;
    }
  }
  return -1;
}

function closingCode(text, from, run) {
  const ticks = /`+/g;
  ticks.lastIndex = from;
  for (let m; (m = ticks.exec(text));) if (m[0].length === run) return m.index;
  return -1;
}

/** Appends text with emphasis, code and links. A search that found nothing is not tried again: the time stays linear. */
function inline(parent, text, depth, linked) {
  const none = new Set();
  let i = 0, plain = '';
  const put = (node) => {
    if (plain) parent.append(plain.replace(/&(amp|lt|gt|quot|nbsp|#39);/g, (_, name) => NAMED[name]));
    plain = '';
    if (node) parent.append(node);
  };
  const search = (key, found) => {
    const at = none.has(key) ? -1 : found();
    if (at < 0) none.add(key);
    return at;
  };
  /** Appends what begins at i; how long it is, 0 = it is plain text. */
  const special = (c) => {
    let m;
    if (c === '\n' || (c === '<' && (m = matchAt(/<br *\/?>/iy, text, i)))) {
      put(el('br'));
      return m ? m[0].length : 1;
    }
    if (c === '\\') {
      if (text[i + 1] === '\n') put(el('br'));
      else if (/[!-/:-@[-`{-~]/.test(text[i + 1] || '')) plain += text[i + 1];
      else return 0;
      return 2;
    }
    if (c === '`') {
      const run = matchAt(/`+/y, text, i)[0].length, end = search('`' + run, () => closingCode(text, i + run, run));
      if (end < 0) plain += '`'.repeat(run);
      else put(el('code', {}, text.slice(i + run, end).replace(/\n/g, ' ').replace(/^ (.*\S.*) $/, '$1')));
      return end < 0 ? run : end + run - i;
    }
    if (c === 'h' || c === '<') {
      if (linked || (c === 'h' && /[\p{L}\p{N}]/u.test(text[i - 1] || ''))) return 0;
      m = matchAt(c === 'h' ? ADDRESS : ANGLES, text, i);
      const href = m && address(m[1] || m[0]);
      if (!href) return 0;
      const a = link(href);
      a.append(m[1] || m[0]);
      put(a);
      return m[0].length;
    }
    if (c === '[' || c === '!') {
      m = linked || (c === '!' && text[i + 1] !== '[') ? null : matchAt(LINK, text, i);
      const href = m && address(m[2]);
      if (!href) return 0;
      const a = link(href);
      inline(a, m[1], depth, true);
      put(a);
      return m[0].length;
    }
    const run = matchAt(/\*+|_+|~+/y, text, i)[0].length, mark = c.repeat(run), next = text[i + run];
    const can = run <= 3 && (c !== '~' || run === 2) && next && /\S/.test(next) && !(c === '_' && /[\p{L}\p{N}]/u.test(text[i - 1] || '')) && depth < MOST_DEPTH;
    const end = can ? search(mark, () => closing(text, i + run, mark)) : -1;
    if (end < 0) {
      plain += mark;
      return run;
    }
    const outer = el(c === '~' ? 'del' : run === 1 ? 'em' : 'strong'), inner = run === 3 ? outer.appendChild(el('em')) : outer;
    inline(inner, text.slice(i + run, end), depth + 1, linked);
    put(outer);
    return end + run - i;
  };
  for (let m; (m = matchAt(SPECIAL, text, i));) {
    plain += text.slice(i, m.index);
    i = m.index;
    const length = special(m[0]);
    if (!length) plain += m[0];
    i += length || 1;
  }
  plain += text.slice(i);
  put(null);
}

const indent = (line) => /^[ \t]*/.exec(line)[0].replace(/\t/g, '    ').length;

function strip(line, n) {
  const white = /^[ \t]*/.exec(line)[0];
  return white.replace(/\t/g, '    ').slice(n) + line.slice(white.length);
}

/** Cells of a row of a table. */
function cells(line) {
  const parts = line.trim().split(/(?<!\\)\|/);
  if (parts[0] === '') parts.shift();
  if (parts.length && parts[parts.length - 1] === '') parts.pop();
  return parts.map((cell) => cell.replace(/\\\|/g, '|').trim());
}

const isTable = (lines, i) => i + 1 < lines.length && lines[i].includes('|') && COLUMNS.test(lines[i + 1]) && cells(lines[i]).length === cells(lines[i + 1]).length;

/** Whether a line ends the paragraph before it. */
function interrupts(lines, i) {
  const item = ITEM.exec(lines[i]);
  return FENCE.test(lines[i]) || HEADING.test(lines[i]) || RULE.test(lines[i]) || QUOTE.test(lines[i]) || isTable(lines, i) ||
    (item && item[3] && (/^\D/.test(item[2]) || parseInt(item[2]) === 1));
}

function codeBlock(language) {
  const code = el('code'), name = language.trim().split(/\s/)[0];
  const button = el('button', { type: 'button', click: () => copy(code.textContent, button) }, icon('copy'), 'Copy');
  return { code, root: el('div', { class: 'code' }, el('div', { class: 'bar' }, el('span', {}, name || 'text'), button), el('pre', { tabindex: '0' }, code)) };
}

/** Lines of a fenced block until its end: a test of lines, and how much indentation goes. */
function fence(m) {
  const mark = m[1];
  return { ...codeBlock(m[2]), ends: (line) => { const t = line.trim(); return t.length >= mark.length && t === mark[0].repeat(t.length) && indent(line) < 4; }, strip: indent(m[0]) };
}

function blocks(parent, lines, depth) {
  for (let i = 0; i < lines.length;) i = block(parent, lines, i, depth);
  return parent;
}

/** Appends the block that begins at line i, one element at most; the line after it. One line more may have decided where it ends. */
function block(parent, lines, i, depth) {
  const line = lines[i], nested = depth < MOST_DEPTH;
  let m;
  if (!line.trim()) return i + 1;
  if ((m = FENCE.exec(line))) {
    const f = fence(m), from = ++i;
    while (i < lines.length && !f.ends(lines[i])) i++;
    f.code.append(lines.slice(from, i).map((s) => strip(s, Math.min(f.strip, indent(s)))).join('\n'));
    parent.append(f.root);
    return Math.min(i + 1, lines.length);
  }
  if ((m = HEADING.exec(line))) {
    const heading = el('h' + Math.min(m[1].length + 1, 5));
    inline(heading, m[2].trim().replace(/ #+$/, ''), 0);
    parent.append(heading);
    return i + 1;
  }
  if (RULE.test(line)) {
    parent.append(el('hr'));
    return i + 1;
  }
  if (nested && QUOTE.test(line)) {
    const from = i;
    while (i < lines.length && QUOTE.test(lines[i])) i++;
    parent.append(blocks(el('blockquote'), lines.slice(from, i).map((s) => s.replace(QUOTE, '')), depth + 1));
    return i;
  }
  if (nested && ITEM.test(line)) return list(parent, lines, i, depth);
  if (isTable(lines, i)) return table(parent, lines, i);
  const from = i++;
  while (i < lines.length && lines[i].trim() && !interrupts(lines, i)) i++;
  const paragraph = el('p');
  inline(paragraph, lines.slice(from, i).map((s) => s.trim()).join('\n'), 0);
  parent.append(paragraph);
  return i;
}

function list(parent, lines, i, depth) {
  const first = ITEM.exec(lines[i]), kind = (m) => m[2].slice(-1), base = indent(lines[i]), start = parseInt(first[2]);
  const root = el(isNaN(start) ? 'ul' : 'ol', { start: start >= 0 && start !== 1 ? start : null });
  let loose = false, blank = false;
  for (let m; i < lines.length && (m = ITEM.exec(lines[i])) && kind(m) === kind(first) && indent(lines[i]) < base + 2 && !RULE.test(lines[i]);) {
    const width = indent(lines[i]) + m[2].length + 1, content = [(m[3] || '').replace(/^\[ \] /, '\u2610 ').replace(/^\[[xX]\] /, '\u2611 ')];
    loose = loose || blank;
    blank = false;
    for (i++; i < lines.length; i++) {
      const inside = indent(lines[i]) >= base + 2;
      if (lines[i].trim() && !inside && (blank || ITEM.test(lines[i]) || interrupts(lines, i))) break;
      if (inside && blank && lines[i].trim()) loose = true;
      blank = !lines[i].trim();
      content.push(inside ? strip(lines[i], Math.min(width, indent(lines[i]))) : lines[i].trim());
    }
    root.append(blocks(el('li'), content, depth + 1));
  }
  if (!loose) root.className = 'tight';
  parent.append(root);
  return i;
}

function table(parent, lines, i) {
  const sides = cells(lines[i + 1]).map((s) => (/^:.*:$/.test(s) ? 'center' : s.endsWith(':') ? 'right' : null));
  const row = (tag, line) => {
    const given = cells(line);
    return el('tr', {}, ...sides.map((side, k) => { const cell = el(tag, { class: side }); inline(cell, given[k] || '', 0); return cell; }));
  };
  const body = el('tbody'), head = el('thead', {}, row('th', lines[i]));
  for (i += 2; i < lines.length && lines[i].includes('|') && lines[i].trim(); i++) body.append(row('td', lines[i]));
  parent.append(el('div', { class: 'wide', tabindex: '0' }, el('table', {}, head, body)));
  return i;
}

/** A text that grows: what nothing can change any more stays as it is, the rest is made anew; a block of code only grows. */
class Markdown {
  constructor(root) {
    this.root = root;
    this.done = 0; // characters whose elements stay, the last of which is kept
    this.kept = this.open = null;
  }

  update(text, ended) {
    while (this.root.lastElementChild !== this.kept) this.root.lastElementChild.remove();
    const lines = text.slice(this.done).split('\n'), complete = ended ? lines.length : lines.length - 1;
    for (let i = 0, next; i < lines.length; i = next) {
      const head = !this.open && i < complete && FENCE.exec(lines[i]);
      if (this.open) {
        next = this.grow(lines, i, complete);
      } else if (head) {
        this.open = Object.assign(fence(head), { fixed: new Text(), last: new Text(), some: false });
        this.open.code.append(this.open.fixed, this.open.last);
        this.root.append(this.open.root);
        next = i + 1;
      } else {
        next = block(this.root, lines, i, 0);
        if (!ended && next + 1 >= complete) { // the lines that ended it may grow yet
          while (next < lines.length) next = block(this.root, lines, next, 0);
          return;
        }
      }
      this.kept = this.root.lastElementChild;
      for (let k = i; k < next; k++) this.done += lines[k].length + 1;
      if (this.open && next >= complete) return;
    }
  }

  /** Code of an open block from line i on; the line after what is complete. */
  grow(lines, i, complete) {
    const o = this.open, part = (s) => (o.some ? '\n' : '') + strip(s, Math.min(o.strip, indent(s))), grown = [];
    for (; i < complete; i++) {
      if (o.ends(lines[i])) {
        this.open = null;
        break;
      }
      grown.push(part(lines[i]));
      o.some = true;
    }
    o.fixed.appendData(grown.join(''));
    const rest = this.open && i < lines.length ? lines[i] : '';
    o.last.data = rest && !/^[ \t]*(`+|~+)$/.test(rest) ? part(rest) : '';
    return this.open ? i : i + 1;
  }
}
