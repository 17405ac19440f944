/* tokenizer_chat.c: chat templates: in tokenizer_config.json, chat_template.jinja or chat_template.json; several by name. */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATES = 64 };

typedef struct templates {
    hf_vocab *v;
    hf_text usual;              /* the one without a name */
    hf_text names[MAX_TEMPLATES], texts[MAX_TEMPLATES];
    size_t n;
    int failed;
} templates;

/* Letters, digits and _ only: names become keys. */
static void add(templates *t, hf_text name, hf_text text) {
    char *p;
    size_t i;
    if (name.s == NULL || name.n == 0 || text.s == NULL) return;
    if (hf_same(name, "default")) {
        t->usual = text;
        return;
    }
    p = hf_bytes(t->v, name.n);
    if (p == NULL) {
        t->failed = 1;
        return;
    }
    for (i = 0; i < name.n; i++) {
        const char c = name.s[i];
        p[i] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    }
    name.s = p;
    for (i = 0; i < t->n && (t->names[i].n != name.n || memcmp(t->names[i].s, p, name.n) != 0); i++) { }
    if (i == MAX_TEMPLATES || name.n > 64) {
        cli_fail(t->v->command, "%s: too many chat templates, or a name of one that is too long", t->v->folder);
        t->failed = 1;
        return;
    }
    if (i == t->n) t->n++;
    t->names[i] = name;
    t->texts[i] = text;
}

/* A text, or a list of {name, template}. */
static void from_json(templates *t, const infer_json *value) {
    size_t i;
    t->usual = hf_string(value);
    for (i = 0; i < infer_json_count(value) && infer_json_kind(value) == INFER_JSON_ARRAY && !t->failed; i++) {
        const infer_json *one = infer_json_at(value, i);
        add(t, hf_string(infer_json_get(one, "name")), hf_string(infer_json_get(one, "template")));
    }
}

static hf_text file(templates *t, const char *name) {
    hf_text text = {NULL, 0};
    char *p, *read = hf_read(t->v, name, &text.n, &t->failed);
    if (read == NULL) return text;
    p = hf_bytes(t->v, text.n);
    if (p) memcpy(p, read, text.n);
    else t->failed = 1;
    free(read);
    text.s = p;
    return text;
}

static int each(void *user, const char *name, int is_folder, uint64_t bytes) {
    static const char END[] = ".jinja";
    templates *t = user;
    const size_t n = strlen(name);
    char path[PLATFORM_PATH];
    hf_text stem;
    (void)bytes;
    if (is_folder || n <= sizeof END - 1 || strcmp(name + n - (sizeof END - 1), END) != 0) return 1;
    if (snprintf(path, sizeof path, "additional_chat_templates/%s", name) >= (int)sizeof path) return 1;
    stem.s = name;
    stem.n = n - (sizeof END - 1);
    add(t, stem, file(t, path));
    return !t->failed;
}

/* A file that only names another one. */
static int includes(hf_text t) {
    size_t i;
    if (t.s == NULL || t.n > 200) return 0;
    for (i = 0; i + 7 <= t.n; i++)
        if (memcmp(t.s + i, "include", 7) == 0) return 1;
    return 0;
}

static int by_name(const void *a, const void *b) {
    const hf_text *x = a, *y = b;
    const int c = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static int put(templates *t, gguf_out *out) {
    char key[128];
    size_t i;
    for (i = 0; i < t->n; i++) {
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", t->names[i].s);
        if (memchr(t->texts[i].s, 0, t->texts[i].n)) return cli_fail(t->v->command, "%s: a chat template contains a zero byte", t->v->folder), 0;
        gguf_text(out, key, t->texts[i].s, t->texts[i].n);
    }
    if (t->n) {
        qsort(t->names, t->n, sizeof *t->names, by_name);
        gguf_array(out, "tokenizer.chat_templates", GGUF_STRING, t->n);
        for (i = 0; i < t->n; i++) gguf_element_string(out, t->names[i].s);
    }
    if (t->usual.s) gguf_text(out, "tokenizer.chat_template", t->usual.s, t->usual.n);
    return 1;
}

int hf_chat_templates(hf_vocab *v, gguf_out *out) {
    const infer_json *value = infer_json_get(v->settings, "chat_template");
    templates *t = cli_alloc(v->command, 1, sizeof *t);
    hf_text other;
    int ok;
    if (t == NULL) return 0;
    memset(t, 0, sizeof *t);
    t->v = v;
    from_json(t, value);
    if ((t->usual.s == NULL && t->n == 0) || includes(t->usual)) {
        char path[PLATFORM_PATH];
        other = file(t, "chat_template.jinja");
        if (other.s) {
            t->usual = other;
            if (snprintf(path, sizeof path, "%s/additional_chat_templates", v->folder) < (int)sizeof path) platform_list(path, each, t);
        } else if (!t->failed && t->usual.s == NULL) {
            from_json(t, infer_json_get(hf_read_json(v, "chat_template.json", &t->failed), "chat_template"));
        }
    }
    ok = !t->failed && put(t, out);
    free(t);
    return ok;
}
