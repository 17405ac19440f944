/* media.c: pictures and sounds of requests: where their bytes are, decoding and encoding them, one at a time. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

enum { MEDIA_MOST = 256 };

/* ---- bytes ---------------------------------------------------------------------------------- */

/* The bytes of base64, to be freed. NULL after setting f. */
static unsigned char *from_base64(const char *s, size_t n, size_t *size, const char *where, failure *f) {
    unsigned char *bytes = cli_alloc(serve_command, n / 4 * 3 + 3, 1);
    const char *wrong = bytes ? cli_base64_read(s, n, bytes, size) : NULL;
    if (bytes && n && wrong == NULL) return bytes;
    if (bytes == NULL) fail(f, 503, NULL, NULL, "out of memory");
    else if (n == 0) fail(f, 400, "invalid_base64", "messages", "%s: no data", where);
    else fail(f, 400, "invalid_base64", "messages", "%s: no base64 (at character %lu)", where, (unsigned long)(wrong - s));
    free(bytes);
    return NULL;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* The file of file://PATH, below --media-path. */
static unsigned char *from_file(const server *s, const char *url, size_t *size, const char *where, failure *f) {
    char path[1024], why[160];
    unsigned char *bytes;
    size_t n = 0;
    for (; *url && n + 1 < sizeof path; url++) {
        const int high = *url == '%' ? hex(url[1]) : -1, low = high >= 0 ? hex(url[2]) : -1;
        path[n++] = low >= 0 ? (char)(high << 4 | low) : *url;
        if (low >= 0) url += 2;
        if (path[n - 1] == 0) break;
    }
    path[n] = 0;
    if (*url) {
        fail(f, 400, "invalid_url", "messages", "%s: the path is too long, or has a zero byte", where);
        return NULL;
    }
    bytes = system_read_below(s->options->media_path, path, (size_t)s->options->max_body, size, why, sizeof why);
    if (bytes == NULL) fail(f, 400, "invalid_url", "messages", "%s: %s", where, why);
    return bytes;
}

/* What a URL stands for. */
static unsigned char *from_url(const server *s, const char *url, size_t n, size_t *size, const char *where, failure *f) {
    static const char BASE64[] = ";base64,";
    const char *comma = memchr(url, ',', n < 256 ? n : 256);
    const size_t head = comma ? (size_t)(comma + 1 - url) : 0;
    if (n >= 5 && memcmp(url, "data:", 5) == 0) {
        if (head >= sizeof BASE64 - 1 && memcmp(url + head - (sizeof BASE64 - 1), BASE64, sizeof BASE64 - 1) == 0)
            return from_base64(url + head, n - head, size, where, f);
        fail(f, 400, "invalid_url", "messages", "%s: a data: URL must have base64: data:image/png;base64,...", where);
    } else if (strncmp(url, "file://", 7) == 0) {
        if (s->options->media_path) return from_file(s, url + 7, size, where, f);
        fail(f, 400, "unsupported_url", "messages", "%s: this server reads no files (--media-path); send the data: data:image/png;base64,...", where);
    } else if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
        fail(f, 400, "unsupported_url", "messages", "%s: this server fetches nothing from the network; send the data: data:image/png;base64,...", where);
    else fail(f, 400, "invalid_url", "messages", "%s: the URL must begin with data:", where);
    return NULL;
}

/* ---- decoding and encoding ------------------------------------------------------------------ */

/* Is the picture or sound of no use any more? */
static int is_off(void *user) {
    call *c = user;
    return c->server->abort || !call_alive(c);
}
static int progress(void *user, float part) {
    (void)part;
    return is_off(user);
}
/* What is said then, to whoever is there. Returns 0. */
static int called_off(server *s, failure *f) {
    return s->abort ? fail(f, 503, "stopping", NULL, "the server is stopping") : fail(f, 408, NULL, NULL, "the client has gone");
}

/* The turn to decode and encode: pixels of one request at a time take memory. Returns 0 after setting f. */
static int take_turn(server *s, call *c) {
    int ok = 1;
    pthread_mutex_lock(&s->lock);
    if (s->media_waiting >= s->options->waiting + s->options->slots) {
        pthread_mutex_unlock(&s->lock);
        c->failure.retry = 1;
        return fail(&c->failure, 429, "rate_limit_exceeded", NULL, "too many requests wait for their pictures and sounds to be read");
    }
    s->media_waiting++;
    while (s->media_busy && ok) {
        system_condition_wait(&s->media_changed, &s->lock, 200);
        ok = !is_off(c);
    }
    if (ok) s->media_busy = 1;
    s->media_waiting--;
    pthread_mutex_unlock(&s->lock);
    return ok || called_off(s, &c->failure);
}

static void end_turn(server *s) {
    pthread_mutex_lock(&s->lock);
    s->media_busy = 0;
    pthread_cond_signal(&s->media_changed);
    pthread_mutex_unlock(&s->lock);
}

static infer_result encode(job *j, int sound, const unsigned char *data, size_t n, infer_media **out, infer_error *err) {
    infer_media_params decoding;
    infer_encode_params p;
    infer_image image;
    infer_sound samples;
    infer_result r;
    memset(&decoding, 0, sizeof decoding);
    memset(&p, 0, sizeof p);
    decoding.max_pixels = (uint64_t)j->server->options->max_pixels;
    decoding.max_seconds = (double)j->server->options->max_sound;
    cli_encode_params(j->server->options->common, &p);
    decoding.limits.cancel = is_off;
    decoding.limits.user = j->call;
    p.progress = progress;
    p.progress_user = j->call;
    memset(&image, 0, sizeof image);
    memset(&samples, 0, sizeof samples);
    r = sound ? infer_sound_decode(&samples, data, n, &decoding, err) : infer_image_decode(&image, data, n, &decoding, err);
    if (r == INFER_OK)
        r = sound ? infer_media_encode_sound(out, j->model->model, &samples, &p, err) : infer_media_encode(out, j->model->model, &image, 1, &p, err);
    infer_image_free(&image);
    infer_sound_free(&samples);
    return r;
}

/* Puts the picture or sound behind those that the job has. */
static int add(job *j, int sound, const unsigned char *data, size_t n, const char *where) {
    server *s = j->server;
    failure *f = &j->call->failure;
    infer_media **more = realloc(j->media, ((size_t)j->n_media + 1) * sizeof *more), *made = NULL;
    infer_error err;
    infer_result r;
    int32_t positions;
    if (more == NULL) return fail(f, 503, NULL, NULL, "out of memory");
    j->media = more;
    if (!take_turn(s, j->call)) return 0;
    r = encode(j, sound, data, n, &made, &err);
    end_turn(s);
    if (r == INFER_CANCELLED) return called_off(s, f);
    if (r == INFER_ERR_MEMORY) return fail(f, 503, NULL, NULL, "%s: %s", where, err.message);
    if (r != INFER_OK) return fail(f, 400, sound ? "invalid_audio" : "invalid_image", "messages", "%s: %s", where, err.message);
    j->media[j->n_media++] = made;
    positions = infer_media_positions(made, NULL);
    j->media_positions += positions;
    pthread_mutex_lock(&s->lock);
    s->counters.media[sound]++;
    s->counters.media_positions += (uint64_t)positions;
    pthread_mutex_unlock(&s->lock);
    if (j->media_positions < j->model->positions) return 1;
    return fail(f, 400, "context_length_exceeded", "messages", "%s: the pictures and sounds take %ld positions and more, and a request has %ld", where,
                (long)j->media_positions, (long)j->model->positions);
}

/* ---- parts ---------------------------------------------------------------------------------- */

int media_is_part(const infer_json *part) {
    const infer_json *type = infer_json_get(part, "type");
    return json_is(type, "image_url") ? MEDIA_IMAGE : json_is(type, "input_audio") ? MEDIA_SOUND : 0;
}

int media_take(job *j, const infer_json *part, const char *where) {
    failure *f = &j->call->failure;
    const int sound = media_is_part(part) == MEDIA_SOUND;
    const infer_json *inside = infer_json_get(part, sound ? "input_audio" : "image_url");
    size_t n = 0, size;
    const char *text = infer_json_string(infer_json_get(inside, sound ? "data" : "url"), &n);
    unsigned char *data;
    int ok;
    if (text == NULL) return fail(f, 400, "invalid_type", "messages", "%s: '%s' must be a string", where, sound ? "input_audio.data" : "image_url.url");
    if (!(sound ? j->model->info.sounds : j->model->info.images))
        return fail(f, 400, "unsupported_content", "messages", "%s: the model takes no %s%s", where, sound ? "sound" : "pictures",
                    j->model->info.images || j->model->info.sounds ? "" : " (the server was started without the model's --projector)");
    if (j->n_media == MEDIA_MOST) return fail(f, 400, "limit_exceeded", "messages", "%s: more than %d pictures and sounds", where, MEDIA_MOST);
    data = sound && strncmp(text, "data:", 5) != 0 ? from_base64(text, n, &size, where, f) : from_url(j->server, text, n, &size, where, f);
    ok = data && add(j, sound, data, size, where);
    free(data);
    return ok;
}

void media_free(job *j) {
    while (j->n_media > 0) infer_media_free(j->media[--j->n_media]);
    free(j->media);
}
