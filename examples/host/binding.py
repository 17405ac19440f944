"""binding.py: a model in Python by ctypes alone. Other threads of Python run meanwhile: ctypes lets go of the interpreter.
  cc -O2 -shared -fPIC -DINFER_IMPLEMENTATION -x c infer.h -o libinfer.so -lm -lpthread -ldl
  python3 examples/host/binding.py ./libinfer.so model.gguf "Once upon a time" "a red ball" "a blue ball" """
import ctypes, itertools, sys

MORE = 3 # INFER_MORE


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 508)]


class Handle(ctypes.c_void_p):
    """An object of the library. Python may collect handles in any order: objects live until nothing needs them."""
    def __init__(self, close):
        self.close = close

    def __del__(self):
        self.close(self)


class Model:
    def __init__(self, library, path):
        self.lib = ctypes.CDLL(library)
        self.model, self.session = Handle(self.lib.infer_model_close), Handle(self.lib.infer_session_destroy)
        self.lib.infer_session_get_context.restype = ctypes.c_void_p
        self.lib.infer_session_error.restype = ctypes.POINTER(Error)
        self.check("infer_model_open_v", ctypes.byref(self.model), path.encode(), None, version=self.lib.infer_version())
        self.check("infer_session_create", ctypes.byref(self.session), self.model, None)

    def check(self, name, *args, version=None):
        """Call a function whose last argument but the version is the error."""
        error = Error()
        end = (ctypes.byref(error),) + (() if version is None else (ctypes.c_uint32(version),))
        if getattr(self.lib, name)(*args, *end) < 0:
            raise RuntimeError(error.message.decode())

    def generate(self, prompt):
        """The text of a prompt piece by piece, until it ends or the caller has enough."""
        text, n, piece, r = Handle(self.lib.infer_generation_end), ctypes.c_size_t(), ctypes.c_char_p(), MORE
        self.lib.infer_session_rewind(self.session, 0)
        self.check("infer_generation_begin", ctypes.byref(text), self.session, None, prompt.encode(), None)
        while r == MORE:
            r = self.lib.infer_generation_next(text, -1, ctypes.byref(piece), ctypes.byref(n))
            if r < 0:
                raise RuntimeError(self.lib.infer_session_error(self.session).contents.message.decode())
            yield piece.value.decode()

    def embed(self, texts):
        width = self.lib.infer_embed_width(self.model, None)
        out = (ctypes.c_float * (width * len(texts)))()
        context = ctypes.c_void_p(self.lib.infer_session_get_context(self.session))
        self.check("infer_embed", context, (ctypes.c_char_p * len(texts))(*(t.encode() for t in texts)), len(texts), None, out)
        return [out[i:i + width] for i in range(0, len(out), width)]


if __name__ == "__main__":
    model = Model(*sys.argv[1:3])
    print("".join(itertools.islice(model.generate(sys.argv[3]), 24)))
    print("%.3f" % sum(x * y for x, y in zip(*model.embed(sys.argv[4:6]))))
