// elements.js: making elements of the page. Attributes are never styles or handlers in text, which the policy of the page forbids.

const $ = (id) => document.getElementById(id);

/** An element; attributes that are functions listen to the event of that name, null and false are none. */
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (value !== null && value !== false) e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children);
  return e;
}

function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), use = document.createElementNS(svg.namespaceURI, 'use');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', '#i-' + name);
  svg.append(use);
  return svg;
}

const setIcon = (button, name) => button.querySelector('use').setAttribute('href', '#i-' + name);
const tool = (name, label, click, more) => el('button', { class: 'tool', type: 'button', 'aria-label': label, title: label, click, ...more }, icon(name));
const number = (n) => n.toLocaleString('en');

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // pages that are not from this computer and not by HTTPS have no clipboard: the old way
    const area = el('textarea', { class: 'unseen' });
    area.value = text;
    button.after(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  setIcon(button, 'done');
  $('status').textContent = 'Copied';
  setTimeout(() => setIcon(button, 'copy'), 1500);
}

/** One line above the conversation, with something to do about it. */
function notice(text, action, act) {
  const [span, button, close] = $('notice').children;
  span.textContent = text;
  button.textContent = action || '';
  button.hidden = !action;
  button.onclick = () => { $('notice').hidden = true; act(); };
  close.onclick = () => { $('notice').hidden = true; $('text').focus(); };
  $('notice').hidden = false;
}

function grow(area) {
  area.style.height = 'auto';
  area.style.height = area.scrollHeight + area.offsetHeight - area.clientHeight + 'px';
}
