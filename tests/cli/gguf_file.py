"""GGUF files for the tests: a small reader and writer, standard library only.

Written apart from the library, so that a mistake in one does not hide in the other. Numbers are little-endian; only
what the tests need is understood (F32 and F16 tensors are turned into floats, others are left alone).
"""
import struct

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}
TENSOR_F32, TENSOR_F16 = 0, 1
ALIGNMENT = 32


class Gguf:
    """meta: key -> value; raw: key -> the bytes of both in the file; tensors: name -> (dims, type, offset into data)."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        self.at = 0
        if self.data[:4] != b'GGUF':
            raise ValueError('not a GGUF file: %s' % path)
        self.at = 4
        self._take('I')
        n_tensors, n_meta = self._take('Q'), self._take('Q')
        self.meta, self.raw, self.tensors = {}, {}, {}
        for _ in range(n_meta):
            start = self.at
            key = self._string()
            self.meta[key] = self._value(self._take('I'))
            self.raw[key] = self.data[start:self.at]
        for _ in range(n_tensors):
            name = self._string()
            dims = [self._take('Q') for _ in range(self._take('I'))]
            kind = self._take('I')
            self.tensors[name] = (dims, kind, self._take('Q'))
        step = self.meta.get('general.alignment', ALIGNMENT)
        self.start = (self.at + step - 1) // step * step

    def _take(self, letter):
        value = struct.unpack_from('<' + letter, self.data, self.at)[0]
        self.at += struct.calcsize(letter)
        return value

    def _string(self):
        n = self._take('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode('utf-8', 'replace')

    def _value(self, kind):
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            element, n = self._take('I'), self._take('Q')
            return [self._value(element) for _ in range(n)]
        return self._take(SCALARS[kind])

    def has(self, name):
        return name in self.tensors

    def rows(self, name):
        """The rows of a tensor as lists of floats; a vector is one row."""
        dims, kind, offset = self.tensors[name]
        letter, size = {TENSOR_F32: ('f', 4), TENSOR_F16: ('e', 2)}[kind]
        width, n = dims[0], 1
        for d in dims[1:]:
            n *= d
        at = self.start + offset
        return [list(struct.unpack_from('<%d%s' % (width, letter), self.data, at + r * width * size)) for r in range(n)]

    def vector(self, name):
        return self.rows(name)[0] if name in self.tensors else None


def _text(s):
    s = s.encode('utf-8') if isinstance(s, str) else s
    return struct.pack('<Q', len(s)) + s


def _kind(value):
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return U32 if value >= 0 else I32
    if isinstance(value, float):
        return F32
    return STRING if isinstance(value, (str, bytes)) else ARRAY


def _encode(value, kind):
    if kind == STRING:
        return _text(value)
    if kind == ARRAY:
        element = _kind(value[0]) if value else U32
        if element in (U32, I32) and any(isinstance(v, int) and v < 0 for v in value):
            element = I32
        return struct.pack('<IQ', element, len(value)) + b''.join(_encode(v, element) for v in value)
    return struct.pack('<' + SCALARS[kind], value)


def write(path, meta, tensors, raw=()):
    """meta: key -> bool, int, float, str or list; tensors: list of (name, dims, type, bytes); raw: more metadata, as Gguf.raw."""
    head, data, offset = list(raw), [], 0
    for key, value in meta.items():
        kind = _kind(value)
        head.append(_text(key) + struct.pack('<I', kind) + _encode(value, kind))
    for name, dims, kind, values in tensors:
        head.append(_text(name) + struct.pack('<I%dQIQ' % len(dims), len(dims), *dims, kind, offset))
        values += b'\0' * (-len(values) % ALIGNMENT)
        data.append(values)
        offset += len(values)
    body = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(meta) + len(raw)) + b''.join(head)
    body += b'\0' * (-len(body) % ALIGNMENT)
    with open(path, 'wb') as f:
        f.write(body + b''.join(data))


def with_templates(model, path, templates):
    """A copy of the model with these chat templates (name -> text; '' is the main one)."""
    g = Gguf(model)
    new = b""
    for name, text in templates.items():
        key = "tokenizer.chat_template" + ("." + name if name else "")
        for part in (key.encode(), None, text.encode()):
            new += struct.pack("<I", STRING) if part is None else struct.pack("<Q", len(part)) + part
    version, n_tensors, n_kv = struct.unpack_from("<IQQ", g.data, 4)
    head = g.data[:4] + struct.pack("<IQQ", version, n_tensors, n_kv + len(templates)) + new + g.data[24:g.at]
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + g.data[g.start:])
    return path
