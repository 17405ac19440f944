/* ppm.c: binary PPM and PGM pictures (P6, P5), as netpbm's ppm(5) and pgm(5) describe them.
 *
 * Owns:  the header, and values of any maximum as bytes.
 */
#include "media.h"

/* The next number of the header, behind white space and comments; *at is then behind it. -1: there is none. */
static int64_t infer__ppm_number(const uint8_t *p, size_t n, size_t *at) {
    int64_t v = -1;
    for (; *at < n; ++*at) {
        uint8_t c = p[*at];
        if (c >= '0' && c <= '9') {
            v = (v < 0 ? 0 : v * 10) + (c - '0');
            if (v > UINT32_MAX) return -1;
        } else if (v >= 0) {
            return v;
        } else if (c == '#') {
            while (*at < n && p[*at] != '\n' && p[*at] != '\r') ++*at;
            if (*at == n) return -1;
        } else if (c != ' ' && (c < 9 || c > 13)) {
            return -1;
        }
    }
    return -1; /* white space follows each */
}

static infer_result infer__ppm_decode(infer__media *m, const uint8_t *p, size_t n, infer_image *out) {
    size_t at = 2, i, values, bytes;
    int64_t width = infer__ppm_number(p, n, &at), height = infer__ppm_number(p, n, &at);
    int64_t most = infer__ppm_number(p, n, &at);
    int channels = p[1] == '6' ? 3 : 1;
    uint8_t *to;
    infer_result r;
    if (width < 0 || height < 0 || most < 0) return infer__media_bad(m, at, "the header is damaged");
    if (most < 1 || most > 65535) return infer__media_bad(m, at, "the maximum is not 1 to 65535");
    if ((r = infer__media_size(m, (uint64_t)width, (uint64_t)height)) != INFER_OK) return r;
    bytes = most > 255 ? 2 : 1;
    values = (size_t)(width * height) * (size_t)channels;
    if (p[at] == '\r' && at + 1 < n && p[at + 1] == '\n' && n - at - 2 == values * bytes) at++;
    at++; /* one character of white space */
    if ((n - at) / bytes < values) return infer__media_bad(m, n, "the file ends early");
    if ((r = infer__media_pixels(m, out, (uint64_t)width, (uint64_t)height)) != INFER_OK) return r;
    for (p += at, to = out->rgb, i = 0; i < values; i++, p += bytes) {
        uint32_t v = bytes == 2 ? (uint32_t)p[0] << 8 | p[1] : p[0];
        if (v > (uint32_t)most) return infer__media_bad(m, at + i * bytes, "a value is above the maximum");
        *to++ = (uint8_t)((v * 255 + (uint32_t)most / 2) / (uint32_t)most);
        if (channels == 1) {
            to[0] = to[1] = to[-1];
            to += 2;
        }
    }
    return infer__media_work(m, values / 16);
}
