/* encoders.c: BERT and its kin, T5. */
#include "families.h"

#include <stdlib.h>
#include <string.h>

/* ---- pooling -------------------------------------------------------------------------------------- */

enum { POOL_NONE = 0, POOL_MEAN = 1, POOL_FIRST = 2, POOL_LAST = 3 }; /* ggml's pooling types */

static uint32_t pool_named(const char *s) {
    return s == NULL ? POOL_NONE : strcmp(s, "mean") == 0 ? POOL_MEAN : strcmp(s, "cls") == 0 ? POOL_FIRST : strcmp(s, "lasttoken") == 0 ? POOL_LAST : POOL_NONE;
}

/* The folder of a module that pools vectors, NULL = none. */
static const char *pooling_path(const infer_json *modules) {
    size_t i;
    for (i = 0; i < infer_json_count(modules); i++) {
        const infer_json *m = infer_json_at(modules, i);
        const char *kind = infer_json_string(infer_json_get(m, "type"), NULL), *path = infer_json_string(infer_json_get(m, "path"), NULL);
        if (kind == NULL || path == NULL || !cli_ends_with(kind, "Pooling")) continue;
        if (strlen(path) < 200 && strstr(path, "..") == NULL && strpbrk(path, "/\\:") == NULL) return path;
    }
    return NULL;
}

static uint32_t pooling_type(const infer_json *config) {
    static const struct {
        const char *flag;
        uint32_t type;
    } FLAGS[] = {{"pooling_mode_mean_tokens", POOL_MEAN}, {"pooling_mode_cls_token", POOL_FIRST}, {"pooling_mode_lasttoken", POOL_LAST}};
    size_t i;
    for (i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; i++)
        if (infer_json_kind(infer_json_get(config, FLAGS[i].flag)) == INFER_JSON_TRUE) return FLAGS[i].type;
    return pool_named(infer_json_string(infer_json_get(config, "pooling_mode"), NULL));
}

/* sentence-transformers: modules.json names a folder whose config.json says how vectors are pooled. */
int keys_pooling(checkpoint *c) {
    infer_json *modules, *pooling = NULL;
    const char *classifier = cfg_text(c, "classifier_pooling"), *path;
    char name[256];
    int ok = cfg_file(c->command, c->folder, "modules.json", 0, &modules);
    path = ok ? pooling_path(modules) : NULL;
    if (path) {
        snprintf(name, sizeof name, "%s/config.json", path);
        ok = cfg_file(c->command, c->folder, name, 0, &pooling);
    }
    if (ok && pooling) {
        if (pooling_type(pooling) != POOL_NONE) key_int(c, "pooling_type", pooling_type(pooling));
        else ok = cli_fail(c->command, "%s/%s: vectors pooled in this way are not supported: mean, cls and lasttoken are", c->folder, name) == CLI_DONE;
    }
    if (ok && pool_named(classifier) != POOL_NONE) key_int(c, "classifier.pooling_type", pool_named(classifier));
    infer_json_free(modules);
    infer_json_free(pooling);
    return ok;
}

/* ---- BERT ----------------------------------------------------------------------------------------- */

/* RoBERTa's positions begin behind the padding token's. */
static uint64_t position_offset(const checkpoint *c) {
    const char *type = cfg_text(c, "model_type");
    return type && strstr(type, "roberta") ? cfg_int(c, "pad_token_id", UINT64_MAX) + 1 : 0;
}

/* Labels of a classifier, unless they are two without names. */
static int labels(checkpoint *c) {
    const infer_json *list = cfg(c, "id2label");
    const size_t n = infer_json_count(list);
    char key[64];
    size_t i;
    if (n == 0 || (n == 2 && cfg_says(infer_json_at(list, 0), "LABEL_0"))) return 1;
    snprintf(key, sizeof key, "%s.classifier.output_labels", c->arch);
    gguf_array(&c->keys, key, GGUF_STRING, n);
    for (i = 0; i < n; i++) {
        char id[24];
        const char *s;
        snprintf(id, sizeof id, "%u", (unsigned)i);
        s = infer_json_string(infer_json_get(list, id), NULL);
        if (s == NULL) return cli_fail(c->command, "%s/config.json: id2label has no label %u", c->folder, (unsigned)i) == CLI_DONE;
        gguf_element_string(&c->keys, s);
    }
    return 1;
}

static int keys_bert(checkpoint *c) {
    const uint64_t offset = position_offset(c), n = cfg_int(c, "max_position_embeddings", 0);
    if (offset && n > offset) key_int(c, "context_length", n - offset);
    return keys_pooling(c) && labels(c);
}

static int tensor_bert(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const char *other = strstr(rest, ".gamma") ? ".gamma" : strstr(rest, ".beta") ? ".beta" : NULL; /* older names of norms' tensors */
    view *v;
    if (layer < 0 && (strncmp(rest, "cls.", 4) == 0 || strncmp(rest, "vocab_", 6) == 0 || strcmp(rest, "lm_head.") == 0)) return 1; /* heads of the training */
    if (layer < 0 && strcmp(rest, "embeddings.position_embeddings.weight") == 0 && t->n_dims == 2) {
        const uint64_t offset = position_offset(c), rows = t->dims[0] > offset ? t->dims[0] - offset : 0, dims[2] = {t->dims[1], rows};
        v = make_view(c, make(c, "position_embd.weight", 2, dims), t, offset * t->dims[1]);
        view_loop(v, rows * t->dims[1], 1);
        return v ? 1 : -1;
    }
    if (other) {
        char name[512];
        snprintf(name, sizeof name, "%.*s%s", (int)(strstr(rest, other) - rest), rest, other[1] == 'g' ? ".weight" : ".bias");
        return name_by_rows(c, t, layer, name) ? 1 : -1;
    }
    return 0;
}

/* ---- Nomic Embed ----------------------------------------------------------------------------------- */

static int keys_nomic(checkpoint *c) {
    static const key_row ROWS[] = {
        {"moe_every_n_layers", KEY_INT, "moe_every_n_layers", NO_DEFAULT},
        {"expert_used_count", KEY_INT, "moe_top_k", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    static const key_row DENSE[] = {
        {"expert_count", KEY_DROP, NULL, 0},
        {"expert_used_count", KEY_DROP, NULL, 0},
        {NULL, 0, NULL, 0},
    };
    const uint64_t n = cfg_int(c, "n_positions", 0), trained = cfg_int(c, "max_trained_positions", 2048);
    /* v1 and v1.5 were trained with 2,048 tokens and say 8,192; v2 with 512 and says 2,048 */
    if (trained == 2048 && (n == 8192 || n == 2048)) key_int(c, "context_length", n / 4);
    if (cfg_number(c, "rotary_emb_fraction", 1) != 1 || cfg_true(c, "rotary_emb_interleaved", 0) || cfg_true(c, "prenorm", 0))
        return cli_fail(c->command, "%s/config.json: rotation or norms of another kind than Nomic Embed has", c->folder) == CLI_DONE;
    return keys_rows(c, cfg_int(c, "moe_every_n_layers", 0) ? ROWS : DENSE) && keys_pooling(c);
}

static int tensor_nomic(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const int second = strcmp(rest, "mlp.experts.mlp.w2") == 0;
    if (layer < 0 && strncmp(rest, "pooler.", 7) == 0) return 1;
    if (strcmp(rest, "mlp.experts.bias") == 0) return 1;
    if (!second && strcmp(rest, "mlp.experts.mlp.w1") != 0) return 0;
    return experts_below(c, t, layer, second ? "ffn_down_exps.weight" : "ffn_up_exps.weight", cfg_int(c, "num_local_experts|num_experts", 0), second);
}

/* ---- ModernBERT ------------------------------------------------------------------------------------ */

static int keys_modernbert(checkpoint *c) {
    static const key_row ROWS[] = {
        {"attention.sliding_window", KEY_INT, "local_attention", NO_DEFAULT},
        {"attention.sliding_window_pattern", KEY_INT, "global_attn_every_n_layers", NO_DEFAULT},
        {"rope.scaling.type", KEY_IS_TEXT, "none", 0},
        {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
        {"hidden_activation", KEY_TEXT, "hidden_activation", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    return keys_rows(c, ROWS) && keys_pooling(c) && labels(c);
}

/* ---- T5 -------------------------------------------------------------------------------------------- */

/* Sublayers of a block by their numbers: self-attention, in decoders cross-attention, the feed-forward network. */
static int t5_block(checkpoint *c, st_tensor *t, const char *stack, const char *rest, int decoder) {
    static const char *const NAMES[][2] = {{"SelfAttention.q.weight", "attn_q.weight"},         {"SelfAttention.k.weight", "attn_k.weight"},
                                           {"SelfAttention.v.weight", "attn_v.weight"},         {"SelfAttention.o.weight", "attn_o.weight"},
                                           {"SelfAttention.relative_attention_bias.weight", "attn_rel_b.weight"},
                                           {"EncDecAttention.q.weight", "cross_attn_q.weight"}, {"EncDecAttention.k.weight", "cross_attn_k.weight"},
                                           {"EncDecAttention.v.weight", "cross_attn_v.weight"}, {"EncDecAttention.o.weight", "cross_attn_o.weight"},
                                           {"EncDecAttention.relative_attention_bias.weight", "cross_attn_rel_b.weight"},
                                           {"DenseReluDense.wi.weight", "ffn_up.weight"},       {"DenseReluDense.wi_0.weight", "ffn_gate.weight"},
                                           {"DenseReluDense.wi_1.weight", "ffn_up.weight"},     {"DenseReluDense.wo.weight", "ffn_down.weight"}};
    const char *norms[3] = {"attn_norm.weight", decoder ? "cross_attn_norm.weight" : "ffn_norm.weight", "ffn_norm.weight"};
    const size_t digits = strspn(rest, "0123456789");
    const char *what = NULL;
    char name[128];
    int sub;
    size_t i;
    if (digits == 0 || digits > 6 || strncmp(rest + digits, ".layer.", 7) != 0) return 0;
    sub = rest[digits + 7] - '0';
    if (sub < 0 || sub > 1 + decoder || rest[digits + 8] != '.') return 0;
    if (strcmp(rest + digits + 9, "layer_norm.weight") == 0) what = norms[sub];
    for (i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(rest + digits + 9, NAMES[i][0]) == 0) what = NAMES[i][1];
    if (what == NULL) return 0;
    snprintf(name, sizeof name, "%s.blk.%.*s.%s", stack, (int)digits, rest, what);
    return make_whole(c, name, t, 0) ? 1 : -1;
}

static int tensor_t5(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    static const char *const SHARED[] = {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    size_t i;
    (void)layer;
    rest = t->name;
    for (i = 0; i < sizeof SHARED / sizeof SHARED[0]; i++) {
        if (strcmp(rest, SHARED[i]) != 0) continue;
        for (; i > 0; i--)
            if (st_find(&c->st, SHARED[i - 1])) return 1; /* the same */
        return make_whole(c, "token_embd.weight", t, 0) ? 1 : -1;
    }
    if (strcmp(rest, "encoder.final_layer_norm.weight") == 0) return make_whole(c, "enc.output_norm.weight", t, 0) ? 1 : -1;
    if (strcmp(rest, "decoder.final_layer_norm.weight") == 0) return make_whole(c, "dec.output_norm.weight", t, 0) ? 1 : -1;
    if (strncmp(rest, "encoder.block.", 14) == 0) return t5_block(c, t, "enc", rest + 14, 0);
    if (strncmp(rest, "decoder.block.", 14) == 0) return t5_block(c, t, "dec", rest + 14, 1);
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static const key_row T5[] = {
    {"context_length", KEY_INT, "n_positions", 512},
    {"decoder_block_count", KEY_INT, "num_decoder_layers", NO_DEFAULT},
    {"attention.key_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.value_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.relative_buckets_count", KEY_INT, "relative_attention_num_buckets", NO_DEFAULT},
    {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "layer_norm_epsilon", NO_DEFAULT},
    {"decoder_start_token_id", KEY_INT, "decoder_start_token_id", NO_DEFAULT},
    END_KEYS,
};
static const key_row T5_ENCODER[] = {
    {"context_length", KEY_INT, "n_positions", 512},
    {"attention.key_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.value_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.relative_buckets_count", KEY_INT, "relative_attention_num_buckets", NO_DEFAULT},
    {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "layer_norm_epsilon", NO_DEFAULT},
    END_KEYS,
};
static const key_row DISTILBERT[] = {{"attention.layer_norm_epsilon", KEY_IS_FLOAT, NULL, 1e-12}, END_KEYS};
static const name_row BERT[] = {
    {"/embeddings.word_embeddings", "token_embd", NAME_COPY},
    {"/embeddings.token_type_embeddings", "token_types", NAME_COPY},
    {"/embeddings.LayerNorm", "token_embd_norm", NAME_COPY},
    {"/pooler.dense", "", NAME_DROPPED},
    {"/classifier.dense", "cls", NAME_COPY},
    {"/classifier.out_proj", "cls.output", NAME_COPY},
    {"/classifier", "cls.output", NAME_COPY},
    {"attention.self.query", "attn_q", NAME_COPY},
    {"attention.self.key", "attn_k", NAME_COPY},
    {"attention.self.value", "attn_v", NAME_COPY},
    {"attention.output.dense", "attn_output", NAME_COPY},
    {"attention.output.LayerNorm", "attn_output_norm", NAME_COPY},
    {"intermediate.dense", "ffn_up", NAME_COPY},
    {"output.dense", "ffn_down", NAME_COPY},
    {"output.LayerNorm", "layer_output_norm", NAME_COPY},
    {"attention.q_lin", "attn_q", NAME_COPY}, /* DistilBERT */
    {"attention.k_lin", "attn_k", NAME_COPY},
    {"attention.v_lin", "attn_v", NAME_COPY},
    {"attention.out_lin", "attn_output", NAME_COPY},
    {"sa_layer_norm", "attn_output_norm", NAME_COPY},
    {"ffn.lin1", "ffn_up", NAME_COPY},
    {"ffn.lin2", "ffn_down", NAME_COPY},
    {"output_layer_norm", "layer_output_norm", NAME_COPY},
    END_NAMES,
};
static const name_row NOMIC[] = {
    {"/embeddings.word_embeddings", "token_embd", NAME_COPY},
    {"/embeddings.token_type_embeddings", "token_types", NAME_COPY},
    {"/emb_ln", "token_embd_norm", NAME_COPY},
    {"attn.Wqkv", "attn_qkv", NAME_COPY},
    {"attn.out_proj", "attn_output", NAME_COPY},
    {"norm1", "attn_output_norm", NAME_COPY},
    {"norm2", "layer_output_norm", NAME_COPY},
    {"mlp.fc11", "ffn_up", NAME_COPY},
    {"mlp.fc12", "ffn_gate", NAME_COPY},
    {"mlp.fc1", "ffn_up", NAME_COPY},
    {"mlp.fc2", "ffn_down", NAME_COPY},
    {"mlp.router.layer", "ffn_gate_inp", NAME_COPY},
    END_NAMES,
};
static const name_row MODERNBERT[] = {
    {"/embeddings.tok_embeddings", "token_embd", NAME_COPY},
    {"/embeddings.norm", "token_embd_norm", NAME_COPY},
    {"/final_norm", "output_norm", NAME_COPY},
    {"/head.dense", "cls", NAME_COPY},
    {"/head.norm", "cls.norm", NAME_COPY},
    {"/classifier", "cls.output", NAME_COPY},
    {"attn_norm", "attn_norm", NAME_COPY},
    {"mlp_norm", "ffn_norm", NAME_COPY},
    {"attn.Wqkv", "attn_qkv", NAME_COPY},
    {"attn.Wo", "attn_output", NAME_COPY},
    {"mlp.Wi", "ffn_up", NAME_COPY},
    {"mlp.Wo", "ffn_down", NAME_COPY},
    END_NAMES,
};

static int is_nomic_moe(checkpoint *c) { return cfg_int(c, "moe_every_n_layers", 0) > 0; }
static const key_row EUROBERT[] = {{"rope.scaling.type", KEY_IS_TEXT, "none", 0}, END_KEYS};

const family ENCODERS_FAMILIES[] = {
    {.classes = "EuroBertModel|EuroBertForMaskedLM|EuroBertForSequenceClassification", .arch = "eurobert", .flags = ENCODER,
     .keys = EUROBERT, .own_keys = keys_pooling},
    {.classes = "BertModel|BertForMaskedLM|BertForSequenceClassification|CamembertModel", .arch = "bert", .act = ACT_BERT, .flags = ENCODER,
     .names = BERT, .own_keys = keys_bert, .own_tensor = tensor_bert},
    {.classes = "DistilBertModel|DistilBertForMaskedLM|DistilBertForSequenceClassification", .arch = "bert", .act = ACT_BERT,
     .flags = ENCODER, .keys = DISTILBERT, .names = BERT, .own_keys = keys_bert, .own_tensor = tensor_bert},
    {.classes = "RobertaModel|RobertaForSequenceClassification|XLMRobertaModel|XLMRobertaForSequenceClassification",
     .arch = "bert", .act = ACT_BERT, .flags = ENCODER, .names = BERT, .own_keys = keys_bert, .own_tensor = tensor_bert},
    {.classes = "NomicBertModel", .arch = "nomic-bert-moe", .act = ACT_BERT, .fits = is_nomic_moe, .flags = ENCODER, .names = NOMIC,
     .own_keys = keys_nomic, .own_tensor = tensor_nomic},
    {.classes = "NomicBertModel", .arch = "nomic-bert", .act = ACT_NOMIC, .flags = ENCODER, .names = NOMIC, .own_keys = keys_nomic,
     .own_tensor = tensor_nomic},
    {.classes = "ModernBertModel|ModernBertForMaskedLM|ModernBertForSequenceClassification", .arch = "modern-bert", .act = ACT_ANY,
     .flags = ENCODER, .names = MODERNBERT, .own_keys = keys_modernbert},
    {
     .classes = "T5ForConditionalGeneration|T5WithLMHeadModel|MT5ForConditionalGeneration|UMT5ForConditionalGeneration|UMT5Model",
     .arch = "t5", .act = ACT_T5, .keys = T5, .own_tensor = tensor_t5},
    {.classes = "T5EncoderModel", .arch = "t5encoder", .act = ACT_T5, .keys = T5_ENCODER, .own_tensor = tensor_t5},
    {.classes = NULL},
};
