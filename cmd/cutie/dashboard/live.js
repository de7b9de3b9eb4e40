// Pages are whole without this script. With it they follow the service: elements with
// an id are replaced by what the stream of the page brings, and files can be dropped.
'use strict';
(() => {
  const main = document.getElementById('main');
  const light = document.createElement('p');
  light.className = 'live';
  light.setAttribute('role', 'status');
  main.before(light);

  let stream = null, retry = 0, lost = null;
  const say = (text, bad) => {
    light.textContent = text;
    light.classList.toggle('bad', bad);
  };

  // parse returns the element of a part. The service has escaped all data in it.
  const parse = (text) => {
    const holder = document.createElement('template');
    holder.innerHTML = text;
    return holder.content.firstElementChild;
  };

  // A part under a pressed button or with chosen text waits: its reader is about to click, or
  // to copy.
  const waiting = new Map();
  let pressed = false;
  const busy = (part) => {
    const chosen = getSelection();
    return pressed || (!chosen.isCollapsed && chosen.containsNode(part, true));
  };
  const places = (part) => [...part.querySelectorAll('.scroll, .note')];

  const replace = (id, text) => {
    const old = document.getElementById(id);
    if (!old) return;
    if (busy(old)) {
      if (!pressed) say('waits: text is selected', false);
      return waiting.set(id, text);
    }
    waiting.delete(id);
    const part = parse(text);
    if (!part) return;
    const at = document.activeElement;
    const href = old.contains(at) ? at.getAttribute('href') : null;
    const before = places(old).map((e) => [e.scrollLeft, e.scrollTop]);
    old.replaceWith(part);
    places(part).forEach((e, i) => {
      if (before[i]) [e.scrollLeft, e.scrollTop] = before[i];
    });
    if (href === null) return;
    for (const a of part.querySelectorAll('a')) {
      if (a.getAttribute('href') === href) return a.focus({ preventScroll: true });
    }
  };
  const catchUp = () => {
    if (waiting.size && !lost) say('live', false);
    [...waiting].forEach(([id, text]) => replace(id, text));
  };
  addEventListener('pointerdown', () => (pressed = true));
  for (const end of ['pointerup', 'pointercancel', 'dragend']) {
    addEventListener(end, () => {
      pressed = false;
      setTimeout(catchUp); // after the click
    });
  }
  document.addEventListener('selectionchange', () => getSelection().isCollapsed && catchUp());

  const open = () => {
    if (stream || document.hidden || !main.dataset.live) return;
    stream = new EventSource(main.dataset.live);
    stream.onopen = () => {
      lost = null;
      say('live', false);
    };
    stream.onmessage = (e) => {
      const end = e.data.indexOf('\n');
      replace(e.data.slice(0, end), e.data.slice(end + 1));
    };
    stream.onerror = () => {
      if (!lost) lost = new Date();
      say('not connected since ' + lost.toISOString().slice(11, 19) + ' UTC, what you see may be old', true);
      // A browser gives a refused stream up.
      if (stream && stream.readyState === EventSource.CLOSED) {
        close();
        retry = setTimeout(open, 10000);
      }
    };
  };
  const close = () => {
    clearTimeout(retry);
    if (stream) stream.close();
    stream = null;
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  addEventListener('pagehide', close);
  addEventListener('pageshow', open);
  open();

  // A key leads to the search, as on other pages of lists.
  const text = document.querySelector('input[name=text]');
  if (text && matchMedia('(hover: hover)').matches) text.placeholder = 'the key / leads here'; // phones have no such key
  document.addEventListener('keydown', (e) => {
    if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || !text || /^(input|textarea|select)$/i.test(e.target.localName)) return;
    e.preventDefault();
    text.focus();
  });

  // Dropped files are put into the form, and its button sends them.
  const input = document.querySelector('input[type=file][name=file]');
  if (!input) return;
  const form = input.closest('form');
  const hint = document.createElement('p');
  hint.className = 'dim';
  hint.textContent = 'Or drop files anywhere on this page.';
  input.closest('label').after(hint);
  const files = (e) => e.dataTransfer && [...e.dataTransfer.types].includes('Files');
  document.addEventListener('dragover', (e) => {
    if (!files(e)) return;
    e.preventDefault();
    form.classList.add('over');
  });
  document.addEventListener('dragleave', (e) => {
    if (!e.relatedTarget) form.classList.remove('over');
  });
  document.addEventListener('drop', (e) => {
    if (!files(e)) return;
    e.preventDefault();
    form.classList.remove('over');
    input.files = e.dataTransfer.files;
    hint.textContent = input.files.length + (input.files.length === 1 ? ' file' : ' files') + ' ready to submit.';
    form.scrollIntoView({ block: 'center' });
    form.querySelector('button').focus();
  });
})();
