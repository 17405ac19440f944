// pictures.js: pictures for the next message: chosen, pasted or dropped; made small before they are kept and sent.

const MOST_SIDE = 1024, MOST_PICTURES = 8, picture = /^data:image\/(?:png|jpeg);base64,[A-Za-z0-9+/]+=*$/;
const sees = () => served.modalities?.vision === true;
let attached = [], reading = 0;

const isPicture = (x) => isText(x) && picture.test(x);
const shownPicture = (url) => el('img', { src: url, alt: 'Picture' });

/** A file as a data: URL of PNG or JPEG, whichever is shorter, with no side longer than MOST_SIDE. */
async function smallPicture(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MOST_SIDE / Math.max(bitmap.width, bitmap.height)), canvas = el('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const to = canvas.getContext('2d');
  to.fillStyle = '#fff'; // behind what is transparent
  to.fillRect(0, 0, canvas.width, canvas.height);
  to.imageSmoothingQuality = 'high';
  to.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const [png, jpeg] = [canvas.toDataURL('image/png'), canvas.toDataURL('image/jpeg', 0.9)];
  return png.length <= jpeg.length ? png : jpeg;
}

async function attach(files) {
  if (!sees()) { notice('This model takes no pictures.'); return; }
  reading++;
  showSend();
  for (const file of files) {
    if (attached.length >= MOST_PICTURES) { notice('A message has at most ' + MOST_PICTURES + ' pictures.'); break; }
    try { attached.push(await smallPicture(file)); } catch { notice('\u201c' + file.name + '\u201d is no picture that this browser can read.'); }
  }
  reading--;
  showAttached();
}

function showAttached() {
  $('attached').replaceChildren(...attached.map((url) => el('span', {}, shownPicture(url), tool('close', 'Remove the picture', () => {
    attached = attached.filter((x) => x !== url);
    showAttached();
    $('text').focus();
  }))));
  $('attached').hidden = !attached.length;
  showSend();
}

function showAttach() {
  $('attach').disabled = !sees();
  $('attach').title = sees() ? 'Attach a picture' : 'This model takes no pictures';
}

/** The files among what was pasted or dropped that are pictures. */
const picturesOf = (data) => [...(data?.files || [])].filter((f) => f.type.startsWith('image/'));

function listenForPictures() {
  $('attach').addEventListener('click', () => $('picture').click());
  $('picture').addEventListener('change', async () => { await attach([...$('picture').files]); $('picture').value = ''; $('text').focus(); });
  $('text').addEventListener('paste', (e) => {
    const files = picturesOf(e.clipboardData);
    if (files.length) { e.preventDefault(); attach(files); }
  });
  document.addEventListener('dragover', (e) => { if (e.dataTransfer?.types.includes('Files')) e.preventDefault(); });
  document.addEventListener('drop', (e) => { // the browser would leave the page for the file
    if (!e.dataTransfer?.types.includes('Files')) return;
    e.preventDefault();
    const files = picturesOf(e.dataTransfer);
    if (files.length) attach(files);
  });
}
