/* opening.h: how a parsed file becomes layers with weights, step by step; on which devices they run; when weights may
 * leave. Included by model.h. */
#ifndef INFER__OPENING_H
#define INFER__OPENING_H

/* Everything after the file is parsed: architecture, hyper-parameters, layers, weights. A model that cannot compute is
 * no error: why_code and why_not say so. Errors are MEMORY and IO, and failures of a requested device. */
typedef struct infer__load { /* how far loading weights, or reading them beforehand, is */
    int32_t group, slot;     /* the model's own and layers, or files; the weight that comes next */
    int32_t locked;
    uint64_t done;           /* its bytes */
} infer__load;
typedef struct infer__upload infer__upload;
typedef struct infer__building {
    int32_t stage;
    infer__load load;
    infer__upload *upload; /* NULL = not begun, or over */
    infer_result r, device; /* why it cannot compute; of that, the failure of a requested device */
    infer_error why;
} infer__building;
/* INFER_MORE: the slice is over. x is zero at first. */
static infer_result infer__model_build(infer_model *m, infer__building *x, infer__budget *budget, infer_error *err);
typedef struct infer__model_opening { /* how far a model is whose file is parsed */
    int32_t stage;
    infer__tokenizer_opening tokenizer;
    infer__building build;
} infer__model_opening;

/* The steps of it, in order; each fills err and returns why it cannot. */
static infer_result infer__hparams_read(infer_model *m, infer_error *err);  /* hparams.c */
static infer_result infer__weights_bind(infer_model *m, infer_error *err);  /* weights.c: names and shapes */
static infer_result infer__weights_load(infer_model *m, infer__load *x, infer__budget *budget,
                                        infer_error *err);                  /* weights.c: bytes, in slices */
static infer_result infer__weights_sample(infer_model *m, infer_error *err); /* weights.c: weights_print */
static infer_result infer__preload(infer_model *m, infer_error *err);       /* weights.c: read and locked beforehand */
static infer_result infer__preload_some(infer_model *m, infer__load *x, infer__budget *budget, infer_error *err);
/* Tell the progress callback that `done` layers are loaded (and then, from n_layer on, uploaded), the last one in
 * part. CANCELLED. */
static int32_t infer__load_steps(const infer_model *m); /* units of progress: layers loaded, uploaded, read */
static infer_result infer__load_progress(infer_model *m, double done, infer_error *err);
static infer_result infer__rope_choose(infer_model *m, infer_error *err);   /* rope.c: which layers share a set */
static infer_result infer__rope_build(infer_model *m, infer_error *err);    /* and its frequencies */
/* Tensors of RoPE factors have the size that every layer using them needs. */
static infer_result infer__rope_check(const infer_model *m, infer_error *err);
static int infer__rope_scales(const infer_model *m); /* 1 when a layer uses them */

/* place.c: which layers run on which device; upload.c: their weights there. Where all layers run on devices the head
 * is with the last, and the embedding is always with layer 0. */
static infer_result infer__place_choose(infer_model *m, infer_error *err); /* opens the devices that params ask for */
/* *x is NULL at first; INFER_MORE: the slice is over, *x has how far it is (infer__upload_free gives it up). */
static infer_result infer__place_upload(infer_model *m, infer__upload **x, infer__budget *budget, infer_error *err);
static void infer__upload_free(infer_model *m, infer__upload **x);
static void infer__place_free(infer_model *m);
static void infer__place_drop(infer_model *m); /* the weights leave the devices, which stay open */
/* One attempt; *failed: the device whose memory was not enough, -1 = something else; *held: its layers before that. */
static infer_result infer__upload_try(infer_model *m, infer__upload **x, infer__budget *budget, int32_t *failed,
                                      int32_t *held, infer_error *err);
static void infer__upload_drop(infer_model *m); /* free the memory read for them */

/* release.c: STATE while the weights are not there; else they stay until infer__weights_let. */
static infer_result infer__weights_hold(const infer_model *m, infer_error *err);
static void infer__weights_let(const infer_model *m);
/* To change them: STATE while a call holds them; none can from then on until infer__weights_disown. */
static infer_result infer__weights_own(infer_model *m, infer_error *err);
static void infer__weights_disown(infer_model *m);
static void infer__weights_note(infer_model *m); /* where weights begin in their tensors: infer__weight.at */
/* As infer_model_offload and infer_model_reload. */
static infer_result infer__weights_offload(infer_model *m, infer_error *err);
static infer_result infer__weights_reload(infer_model *m, infer_error *err);
/* The backend `auto`; takes_gpus: INFER__AUTO_TAKES_GPUS, except in tests. */
static infer_result infer__place_auto(infer_model *m, int takes_gpus);
/* Of the table of projectors; NULL: a model of texts. */
INFER__FOLDED const infer__stack_row *infer__stack_row_of(const infer_model *m) {
    return INFER__HAS_MEDIA ? m->stack.row : NULL;
}
/* The layers that this model has, and the model's own weights that go with them. */
INFER__INLINE int infer__here(const infer_model *m, int32_t layer) { /* blocks that predict have no range */
    return !INFER__HAS_RANGES || (layer >= m->first && (layer < m->end || layer >= m->hp.n_layer));
}
INFER__INLINE int32_t infer__first(const infer_model *m) { return INFER__HAS_RANGES ? m->first : 0; }
INFER__INLINE int32_t infer__end(const infer_model *m) { return INFER__HAS_RANGES ? m->end : m->hp.n_layer; }
/* 1 when others have some of its weights; when sessions are theirs. */
INFER__INLINE int infer__ranged(const infer_model *m) {
    return INFER__HAS_RANGES && (m->first > 0 || m->end < m->hp.n_layer || m->parts > 1);
}
INFER__INLINE int infer__follows(const infer_model *m) { return INFER__HAS_RANGES && (m->first > 0 || m->part > 0); }
static infer_result infer__range_check(infer_model *m, infer_error *err); /* rest.c: of params; layers are known */
static infer_result infer__range_drop(infer_model *m, infer_error *err);  /* weights are bound: forget the others */
/* parts.c, while a model opens: params; which of the model's own weights a part has; which matrices are cut, once it is
 * known which weights are there; the head, if that is the embedding; a weight whose tensor is loaded; rows of a weight
 * that is cut. */
enum { INFER__PARTS_MOST = 64 };
static infer_result infer__parts_check(infer_model *m, infer_error *err);
static int infer__parts_slot(const infer_model *m, int32_t slot);
static void infer__parts_cut(infer_model *m);
static void infer__parts_head_tied(infer_model *m);
static void infer__cut_loaded(const infer__gguf_tensor *t, infer__weight *w);
static infer__weight infer__cut_slice(const infer__weight *w, int32_t first, int32_t n);
/* Where the head runs. */
INFER__INLINE int32_t infer__head_place(const infer_model *m) { return m->layers[m->hp.n_layer - 1].place; }
/* 1 when layers run on the device. */
static int infer__place_used(const infer_model *m, int32_t place);
/* Layers on devices, and the blocks that predict if they are there: with all layers, on the last one's device. */
INFER__INLINE int32_t infer__placed(const infer_model *m) {
    const int32_t n = m->device_layers, all = infer__n_all(&m->hp);
    return n > 0 && n == m->hp.n_layer && all > n && m->layers[n].place != INFER__ON_CPU ? all : n;
}

#endif
