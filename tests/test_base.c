/* test_base.c: the lowest layer: sizes, conversions, text, memory, files, threads. */

static void test_overflow(void) {
    uint64_t r = 7;
    CHECK(infer__mul_ok(0, UINT64_MAX, &r) && r == 0);
    CHECK(infer__mul_ok(1, UINT64_MAX, &r) && r == UINT64_MAX);
    CHECK(infer__mul_ok(0x100000000u, 0xffffffffu, &r) && r == 0xffffffff00000000u);
    r = 7;
    CHECK(!infer__mul_ok(0x100000000u, 0x100000000u, &r) && r == 7);
    CHECK(!infer__mul_ok(UINT64_MAX, 2, &r) && r == 7);
    CHECK(infer__add_ok(UINT64_MAX - 5, 5, &r) && r == UINT64_MAX);
    r = 7;
    CHECK(!infer__add_ok(UINT64_MAX - 5, 6, &r) && r == 7);
}

static void test_loads(void) {
    static const uint8_t b[9] = {0xff, 1, 2, 3, 4, 5, 6, 0x87, 0x80};
    CHECK(infer__load_u16(b + 1) == 0x0201);
    CHECK(infer__load_u32(b + 1) == 0x04030201u);
    CHECK(infer__load_u64(b + 1) == 0x8087060504030201u);
    CHECK(infer__f32_bits(infer__load_f32(b + 1)) == 0x04030201u);
}

/* The value of a half by its definition, in double; NaN and infinities excluded. */
static double base_half_value(unsigned h) {
    int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000u ? -v : v;
}

static void test_half_exhaustive(void) {
    unsigned h;
    for (h = 0; h < 65536; h++) {
        float f = infer__f16_f32((uint16_t)h);
        uint32_t u = infer__f32_bits(f);
        uint16_t back = infer__f32_f16(f);
        if ((h & 0x7fffu) > 0x7c00u) { /* NaN stays NaN with its sign and payload, made quiet */
            CHECK((u & 0x7fffffffu) > 0x7f800000u && u >> 31 == h >> 15 && (u >> 13 & 0x3ffu) == (h & 0x3ffu));
            CHECK(back == (h | 0x200u));
        } else {
            CHECK(back == h);
            if ((h & 0x7fffu) == 0x7c00u) CHECK(u == ((h & 0x8000u) << 16 | 0x7f800000u));
            else CHECK((double)f == base_half_value(h) && u >> 31 == h >> 15);
        }
    }
}

/* Between every pair of neighbours: just below the middle rounds down, the middle to even, just above rounds up. */
static void test_half_rounding(void) {
    unsigned h;
    for (h = 0; h < 0x7bffu; h++) {
        double middle = (base_half_value(h) + base_half_value(h + 1)) / 2; /* exact in float */
        uint32_t m = infer__f32_bits((float)middle);
        unsigned even = h & 1 ? h + 1 : h;
        CHECK(infer__f32_f16(infer__bits_f32(m)) == even);
        CHECK(infer__f32_f16(infer__bits_f32(m - 1)) == h);
        CHECK(infer__f32_f16(infer__bits_f32(m + 1)) == h + 1);
        CHECK(infer__f32_f16(infer__bits_f32(m | 0x80000000u)) == (even | 0x8000u));
    }
    CHECK(infer__f32_f16(65519.996f) == 0x7bff);
    CHECK(infer__f32_f16(65520.0f) == 0x7c00);
    CHECK(infer__f32_f16(infer__bits_f32(0x7f7fffffu)) == 0x7c00);
    CHECK(infer__f32_f16(infer__bits_f32(0xff800000u)) == 0xfc00);
    CHECK(infer__f32_f16(infer__bits_f32(0x7f800001u)) == 0x7e00); /* a NaN must not become infinity */
    CHECK(infer__f32_f16(infer__bits_f32(0x00000001u)) == 0);
    CHECK(infer__f32_f16(infer__bits_f32(0x80000001u)) == 0x8000);
    CHECK(infer__f32_f16(1.0f) == 0x3c00 && infer__f32_f16(-2.0f) == 0xc000 && infer__f32_f16(0.333251953125f) == 0x3555);
}

static void test_bfloat(void) {
    unsigned h;
    for (h = 0; h < 65536; h++) {
        uint16_t back = infer__f32_bf16(infer__bf16_f32((uint16_t)h));
        if ((h & 0x7fffu) > 0x7f80u) CHECK(back == (h | 64u));
        else CHECK(back == h);
    }
    CHECK(infer__f32_bf16(infer__bits_f32(0x3f808000u)) == 0x3f80); /* tie to even: down */
    CHECK(infer__f32_bf16(infer__bits_f32(0x3f818000u)) == 0x3f82); /* tie to even: up */
    CHECK(infer__f32_bf16(infer__bits_f32(0x3f808001u)) == 0x3f81);
    CHECK(infer__f32_bf16(infer__bits_f32(0x3f807fffu)) == 0x3f80);
    CHECK(infer__f32_bf16(infer__bits_f32(0x7f7fffffu)) == 0x7f80); /* overflow to infinity */
    CHECK(infer__f32_bf16(infer__bits_f32(0x7f800001u)) == 0x7fc0);
    CHECK(infer__finite(infer__bits_f32(0x7f7fffffu)) && !infer__finite(infer__bits_f32(0x7f800000u)));
    CHECK(!infer__finite(infer__bits_f32(0xffc00000u)) && infer__finite(0.0f));
}

/* ---- text ----------------------------------------------------------------------------------------- */

static void test_format(void) {
    static const double values[] = {0, 1, 0.5, 1e-5, 0.0001, 123456, 1234567, 1e15, 1e16, 3.14159265358979, 1e-30, 1e30, 2.5,
                                    999999.5, 0.1, 1e100, 255.99, 10000, 1e-4, 9.9999e-5, 0.99999999, 100, 0.06};
    static const char *const forms[] = {"%g", "%.9g", "%.3g", "%f", "%.2f", "%.0f", "%e", "%.1e", "%10.3f", "%-12g|", "%.1f"};
    char a[400], b[400];
    size_t i, j;
    int n = -42;
    CHECK(infer__format(a, sizeof a, "%s|%5s|%-5s|%.2s|%.*s", "ab", "cd", "ef", "ghi", 3, "jklm") == 21);
    CHECK_STR(a, "ab|   cd|ef   |gh|jkl");
    infer__format(a, sizeof a, "%d %5d %-5d| %05d %+d %i %u %x %X %#x %c%%", n, n, n, n, 7, 0, 4000000000u, 0xbeefu, 0xbeefu, 255u, 'z');
    CHECK_STR(a, "-42   -42 -42  | -0042 +7 0 4000000000 beef BEEF 0xff z%");
    infer__format(a, sizeof a, "%lld %llu %zu %ld %*d", (long long)INT64_MIN, (unsigned long long)UINT64_MAX, (size_t)12, -3L, 4, 5);
    CHECK_STR(a, "-9223372036854775808 18446744073709551615 12 -3    5");
    for (i = 0; i < INFER__COUNT(values); i++)
        for (j = 0; j < INFER__COUNT(forms); j++) {
            int s;
            if (values[i] >= 1e17 && strchr(forms[j], 'f')) continue; /* more digits than a double has */
            for (s = 0; s < 2; s++) {
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
                infer__format(a, sizeof a, forms[j], s ? -values[i] : values[i]);
                snprintf(b, sizeof b, forms[j], s ? -values[i] : values[i]);
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
                CHECK_STR(a, b);
            }
        }
    memset(a, 'x', 8);
    CHECK(infer__format(a, 4, "%s", "abcdef") == 6);
    CHECK(memcmp(a, "abc\0x", 5) == 0);
    CHECK(infer__format(a, 0, "%s", "abcdef") == 0 && a[0] == 'a');
}

static void test_error(void) {
    infer_error e;
    char long_name[600];
    size_t i;
    CHECK(infer__error(NULL, INFER_ERR_IO, "%s", "x") == INFER_ERR_IO);
    infer__error_clear(NULL);
    CHECK(infer__error(&e, INFER_ERR_FORMAT, "tensor %s at %d", "a\nb\x7f", 7) == INFER_ERR_FORMAT);
    CHECK(e.code == INFER_ERR_FORMAT);
    CHECK_STR(e.message, "tensor a?b? at 7");
    infer__error(&e, INFER_ERR_FORMAT, "%s", "\xc3\xa9 \xff \xc3( \xed\xa0\x80 \xf0\x9f\x98\x80 \xe2\x82");
    CHECK_STR(e.message, "\xc3\xa9 ? ?( ??? \xf0\x9f\x98\x80 ??");
    /* Cut inside a character of 3 bytes, at each of its positions. */
    for (i = 0; i < 3; i++) {
        size_t n, k;
        memset(long_name, 'a', i);
        for (k = i; k + 3 < sizeof long_name; k += 3) memcpy(long_name + k, "\xe2\x82\xac", 3);
        long_name[k] = 0;
        infer__error(&e, INFER_ERR_FORMAT, "%s", long_name);
        n = strlen(e.message);
        CHECK(n > sizeof e.message - 4 && n < sizeof e.message && (n - i) % 3 == 0);
        CHECK(memcmp(e.message, long_name, n) == 0);
    }
    infer__error_clear(&e);
    CHECK(e.code == INFER_OK && e.message[0] == 0);
}

static int base_log_level;
static char base_log_text[1200];
static void base_log(void *user, int level, const char *message) {
    CHECK(user == &base_log_level);
    base_log_level = level;
    snprintf(base_log_text, sizeof base_log_text, "%s", message);
}
static void test_log(void) {
    infer__report r;
    r.log = base_log;
    r.user = &base_log_level;
    infer__log(&r, 2, "seen %d\t%s", 3, "times");
    CHECK(base_log_level == 2);
    CHECK_STR(base_log_text, "seen 3?times");
    r.log = NULL;
    infer__log(&r, 1, "nobody");
    infer__log(NULL, 1, "nobody");
    CHECK(base_log_level == 2);
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void test_memory(void) {
    infer__mem m;
    infer_allocator a;
    unsigned char *p, *q;
    size_t i, zero = 0;
    int own;
    for (own = 0; own < 2; own++) {
        memset(&a, 0, sizeof a);
        if (own) {
            a.alloc = check_alloc;
            a.free = check_free;
        }
        check_live = 0;
        infer__mem_init(&m, own ? &a : NULL, 1000);
        CHECK(infer__alloc(&m, 0) == NULL && infer__calloc(&m, 0, 8) == NULL);
        CHECK(infer__alloc(&m, 1001) == NULL && infer__atomic_get(&m.used) == 0);
        p = (unsigned char *)infer__alloc(&m, 600);
        CHECK(p && (uintptr_t)p % INFER__ALIGN == 0 && infer__atomic_get(&m.used) == 600);
        CHECK(infer__alloc(&m, 401) == NULL && infer__atomic_get(&m.used) == 600);
        q = (unsigned char *)infer__calloc(&m, 100, 4);
        CHECK(q && (uintptr_t)q % INFER__ALIGN == 0 && infer__atomic_get(&m.used) == 1000);
        for (i = 0; q && i < 400; i++) zero += q[i] == 0;
        CHECK(zero == 400);
        zero = 0;
        CHECK(!infer__mem_reserve(&m, 1) && !infer__mem_reserve(&m, UINT64_MAX) && infer__atomic_get(&m.used) == 1000);
        infer__free(&m, p);
        infer__free(&m, NULL);
        CHECK(infer__mem_reserve(&m, 600) && infer__atomic_get(&m.used) == 1000);
        infer__mem_release(&m, 600);
        CHECK(infer__calloc(&m, UINT64_MAX / 2, 3) == NULL && infer__alloc(&m, UINT64_MAX) == NULL);
        memset(q, 7, 400);
        CHECK(infer__realloc(&m, q, UINT64_MAX / 2, 3) == NULL);
        CHECK(infer__realloc(&m, q, 1000, 1) == NULL); /* old and new together pass the limit; q stays */
        q = (unsigned char *)infer__realloc(&m, q, 500, 1);
        CHECK(q && q[0] == 7 && q[399] == 7 && infer__atomic_get(&m.used) == 500);
        q = (unsigned char *)infer__realloc(&m, q, 10, 1);
        CHECK(q && q[9] == 7 && infer__atomic_get(&m.used) == 10);
        p = (unsigned char *)infer__realloc(&m, NULL, 10, 2);
        CHECK(p && infer__atomic_get(&m.used) == 30);
        infer__free(&m, p);
        infer__free(&m, q);
        CHECK(infer__atomic_get(&m.used) == 0 && (!own || check_live == 0));
    }
}

/* An allocator that ignores align, and checks that free gets alloc's size. */
static size_t base_sizes;
static void *base_odd_alloc(void *user, size_t size, size_t align) {
    char *p = (char *)malloc(size + 8);
    (void)user;
    CHECK(align == INFER__ALIGN);
    base_sizes += size;
    return p ? p + 8 : NULL;
}
static void base_odd_free(void *user, void *p, size_t size) {
    (void)user;
    base_sizes -= size;
    free((char *)p - 8);
}
static void test_memory_alignment(void) {
    infer_allocator a = {NULL, base_odd_alloc, base_odd_free};
    infer__mem m;
    void *p[20];
    size_t i;
    infer__mem_init(&m, &a, 0);
    for (i = 0; i < 20; i++) {
        p[i] = infer__alloc(&m, 1 + i * 37);
        CHECK(p[i] && (uintptr_t)p[i] % INFER__ALIGN == 0);
        if (p[i]) memset(p[i], 1, 1 + i * 37);
    }
    for (i = 0; i < 20; i++) infer__free(&m, p[i]);
    CHECK(base_sizes == 0 && infer__atomic_get(&m.used) == 0);
}

static void test_arena(void) {
    infer__mem m;
    infer__arena a;
    char *first;
    size_t i, k;
    infer__mem_init(&m, NULL, 0);
    memset(&a, 0, sizeof a);
    a.mem = &m;
    first = infer__arena_text(&a, "hello world", 5);
    CHECK_STR(first, "hello");
    CHECK(infer__arena_text(&a, "", 0) != NULL);
    for (i = 0; i < 3000; i++) {
        unsigned char *p = (unsigned char *)infer__arena_alloc(&a, i);
        CHECK(p && (uintptr_t)p % 16 == 0);
        for (k = 0; p && k < i; k++) CHECK(p[k] == 0);
        if (p) memset(p, 0xff, i);
    }
    CHECK(infer__arena_alloc(&a, (uint64_t)3 << 20) != NULL);
    CHECK(infer__arena_alloc(&a, UINT64_MAX) == NULL && infer__arena_alloc(&a, UINT64_MAX - 15) == NULL);
    CHECK_STR(first, "hello");
    infer__arena_free(&a);
    CHECK(infer__atomic_get(&m.used) == 0);
    CHECK(infer__arena_alloc(&a, 1) != NULL); /* usable again */
    infer__arena_free(&a);
    infer__mem_init(&m, NULL, 100);
    CHECK(infer__arena_alloc(&a, 8) == NULL && infer__atomic_get(&m.used) == 0);
    infer__arena_free(&a);
}

/* ---- files ---------------------------------------------------------------------------------------- */

static void test_file(void) {
    static const char name[] = "build-check-\xc3\xa9\xe2\x82\xac.bin"; /* UTF-8 on Windows too */
    infer__file f;
    infer_error e;
    char buf[16];
    int map;
#if defined(INFER_NO_STDIO)
    CHECK(infer__file_open(&f, "x", 1, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "INFER_NO_STDIO");
#else
    CHECK(infer__file_open(&f, "no/such/file.gguf", 1, &e) == INFER_ERR_IO && f.handle == 0);
    CHECK_HAS(e.message, "no/such/file.gguf: no such file");
    CHECK(infer__file_open(&f, ".", 1, &e) == INFER_ERR_IO && f.handle == 0);
    CHECK_HAS(e.message, "is a directory");
#if !defined(_WIN32)
    CHECK(infer__file_open(&f, "/dev/null", 1, &e) == INFER_ERR_IO);
    CHECK_HAS(e.message, "not a regular file");
#endif
    {
        FILE *w = fopen(check_data("base_empty.bin"), "rb");
        CHECK(w != NULL);
        if (w) fclose(w);
    }
    CHECK(infer__file_open(&f, check_data("base_empty.bin"), 1, &e) == INFER_OK && f.size == 0 && f.map == NULL);
    CHECK(infer__file_read(&f, 0, buf, 4) == 0);
    infer__file_close(&f);
    for (map = 0; map < 2; map++) {
        CHECK(infer__file_open(&f, check_data("base_ten.bin"), map, &e) == INFER_OK && f.size == 10);
        if (f.handle) {
#if !defined(INFER_NO_MMAP)
            CHECK((f.map != NULL) == map);
#endif
            if (f.map) CHECK(memcmp(f.map, "0123456789", 10) == 0);
            CHECK(infer__file_read(&f, 0, buf, 10) == 10 && memcmp(buf, "0123456789", 10) == 0);
            CHECK(infer__file_read(&f, 7, buf, 10) == 3 && memcmp(buf, "789", 3) == 0);
            CHECK(infer__file_read(&f, 10, buf, 1) == 0 && infer__file_read(&f, UINT64_MAX - 2, buf, 1) == 0);
        }
        infer__file_close(&f);
        infer__file_close(&f); /* twice is harmless */
        CHECK(infer__file_read(&f, 0, buf, 1) == 0);
    }
    CHECK(infer__file_open(&f, name, 1, &e) == INFER_ERR_IO);
    CHECK_HAS(e.message, "\xc3\xa9\xe2\x82\xac");
#endif
}

/* ---- threads -------------------------------------------------------------------------------------- */

typedef struct base_job {
    int seen[1000];         /* not atomic: a task that ran twice is a race that TSan sees */
    infer__atomic busy[16]; /* per worker: two tasks at once on one worker id would share scratch */
    infer__atomic clash;
    int threads;
} base_job;

static void base_task(void *arg, int task, int worker) {
    base_job *j = (base_job *)arg;
    if (worker < 0 || worker >= j->threads) {
        infer__atomic_add(&j->clash, 1);
        return;
    }
    if (infer__atomic_add(&j->busy[worker], 1) != 0) infer__atomic_add(&j->clash, 1);
    j->seen[task]++;
    infer__atomic_add(&j->busy[worker], -1);
}

/* A host's parallel_for: here in order, backwards, by itself. */
static int base_host_calls;
static void base_host(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    CHECK(user == &base_host_calls);
    base_host_calls++;
    while (n-- > 0) task(arg, n);
}

static void base_run_jobs(infer__pool *p, base_job *j) {
    static const int sizes[] = {0, 1, 2, 3, 7, 64, 1000};
    int round, i, n;
    for (round = 0; round < 210; round++) {
        n = sizes[round % 7];
        memset(j->seen, 0, sizeof j->seen);
        infer__parallel(p, n, base_task, j);
        for (i = 0; i < 1000; i++) CHECK(j->seen[i] == (i < n));
        if (round % 50 == 49) { /* long enough for the workers to fall asleep */
            double t = infer__seconds();
            while (infer__seconds() - t < 0.002) infer__yield();
        }
    }
    CHECK(infer__atomic_get(&j->clash) == 0);
}

static void test_pool(void) {
    static const int threads[] = {1, 2, 3, 8};
    static base_job j;
    infer__mem m;
    infer__pool *p = NULL;
    infer_error e;
    size_t i;
    infer__mem_init(&m, NULL, 0);
    for (i = 0; i < INFER__COUNT(threads); i++) {
        memset(&j, 0, sizeof j);
        CHECK(infer__pool_create(&p, &m, threads[i], NULL, NULL, NULL, &e) == INFER_OK);
        j.threads = infer__pool_threads(p);
#if defined(INFER__THREADS)
        CHECK(j.threads == threads[i]);
#else
        CHECK(j.threads == 1);
#endif
        base_run_jobs(p, &j);
        infer__pool_destroy(p);
        memset(&j, 0, sizeof j);
        base_host_calls = 0;
        CHECK(infer__pool_create(&p, &m, threads[i], NULL, base_host, &base_host_calls, &e) == INFER_OK);
        j.threads = infer__pool_threads(p);
        CHECK(j.threads == threads[i]);
        base_run_jobs(p, &j);
        CHECK((base_host_calls > 0) == (threads[i] > 1));
        infer__pool_destroy(p);
    }
    memset(&j, 0, sizeof j);
    j.threads = 1;
    CHECK(infer__pool_threads(NULL) == 1);
    base_run_jobs(NULL, &j);
    infer__pool_destroy(NULL);
    CHECK(infer__atomic_get(&m.used) == 0);
}

/* A worker begins where infer__pool_first says and goes on from there, past the last task to the first: with a host
 * that runs its calls one after the other, the last one first, that one runs them all. */
static int base_next, base_ran;
static void base_order_task(void *arg, int task, int worker) {
    (void)arg; (void)worker;
    CHECK(task == base_next);
    base_next = (base_next + 1) % 50;
    base_ran++;
}
static void test_pool_order(void) {
#if defined(INFER__ATOMICS)
    static const int threads[] = {2, 3, 16, 17, 64};
    infer__mem m;
    infer__pool *p;
    infer_error e;
    size_t i;
    infer__mem_init(&m, NULL, 0);
    for (i = 0; i < INFER__COUNT(threads); i++) {
        CHECK(infer__pool_create(&p, &m, threads[i], NULL, base_host, &base_host_calls, &e) == INFER_OK);
        base_next = infer__pool_first(p, 50, INFER__MIN(threads[i], 50) - 1);
        CHECK(infer__pool_first(p, 50, 0) == 0 && base_next < 50);
        base_ran = 0;
        infer__parallel(p, 50, base_order_task, NULL);
        CHECK(base_ran == 50);
        infer__pool_destroy(p);
    }
    CHECK(infer__pool_first(NULL, 50, 0) == 0);
#endif
}

static void test_pool_memory(void) {
    infer_allocator a = {NULL, check_alloc, check_free};
    infer__mem m;
    infer__pool *p;
    infer_error e;
    long n;
    for (n = 1; n < 10; n++) {
        infer_result r;
        check_allocs = check_live = 0;
        check_fail_at = n;
        infer__mem_init(&m, &a, 0);
        r = infer__pool_create(&p, &m, 3, NULL, NULL, NULL, &e);
        check_fail_at = 0;
        CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && p == NULL));
        if (r != INFER_OK) CHECK_HAS(e.message, "out of memory");
        infer__pool_destroy(p);
        CHECK(check_live == 0 && infer__atomic_get(&m.used) == 0);
        if (r == INFER_OK) break;
    }
    CHECK(n == 3);
}

static infer__atomic base_once_count;
static infer__once base_once;
static void base_once_fn(void) { infer__atomic_add(&base_once_count, 1); }
static void base_once_task(void *arg, int task, int worker) {
    (void)arg; (void)task; (void)worker;
    infer__call_once(&base_once, base_once_fn);
    CHECK(infer__atomic_get(&base_once_count) == 1);
}
static void test_once(void) {
    infer__mem m;
    infer__pool *p;
    infer_error e;
    infer__mem_init(&m, NULL, 0);
    CHECK(infer__pool_create(&p, &m, 4, NULL, NULL, NULL, &e) == INFER_OK);
    infer__parallel(p, 100, base_once_task, NULL);
    infer__pool_destroy(p);
    CHECK(infer__atomic_get(&base_once_count) == 1);
}

static void test_clock(void) {
    double a = infer__seconds(), b = infer__seconds();
    infer__atomic n;
    CHECK(b >= a && b - a < 60);
    CHECK(infer__cores() >= 1);
#if defined(__linux__)
    {
        static unsigned long set[INFER__CPU_SET];
        const char *p = " 150000 100000\n";
        int cores;
        CHECK(infer__read_number(&p) == 150000 && infer__read_number(&p) == 100000 && infer__read_number(&p) == 0);
        p = "max 100000\n";
        CHECK(infer__read_number(&p) == 0 && infer__read_number(&p) == 0);
        set[0] = 0xfe; /* processors 1 to 7 */
        CHECK(!infer__sibling_before("0,4\n", set, 4) && infer__sibling_before("1,5\n", set, 5) && !infer__sibling_before("1,5\n", set, 1));
        CHECK(infer__sibling_before("0-3\n", set, 2) && !infer__sibling_before("0-3\n", set, 1) && !infer__sibling_before("", set, 7));
        CHECK(!infer__sibling_before("99999999999-99999999999999\n", set, 7));
        CHECK(infer__processors(&cores) >= 1 && cores >= 1 && infer__cores() == cores);
    }
#endif
    infer__atomic_set(&n, INT64_MAX - 1);
    CHECK(infer__atomic_add(&n, 1) == INT64_MAX - 1 && infer__atomic_get(&n) == INT64_MAX);
    infer__atomic_set(&n, 0);
    CHECK(infer__atomic_add(&n, -3) == 0 && infer__atomic_get(&n) == -3);
}

/* A read of what was never written, for the script that looks whether MemorySanitizer sees it: run with the filter "planted". */
static void test_msan_planted(void) {
    volatile int *p = (volatile int *)malloc(sizeof *p);
    int *volatile never = (int *)malloc(4 * sizeof *never); /* gcc does not see either */
    *p = never[2] > 7 ? 1 : 2;
    CHECK(*p != 3);
    free((void *)(uintptr_t)p);
    free(never);
}

/* The end of a slice, whatever the clock can tell apart. */
static void test_slice_ends(void) {
    CHECK(infer__slice_end(-1) == 0 && !infer__slice_over(infer__slice_end(-1)));
    CHECK(infer__slice_end(0) < 0 && infer__slice_over(infer__slice_end(0)));
    CHECK(infer__slice_end(100000) > infer__seconds() && !infer__slice_over(infer__slice_end(100000)));
    CHECK(infer__slice_over(infer__seconds()));
}

static void suite_base(void) {
    if (check_filter && strstr(check_filter, "planted")) RUN(test_msan_planted);
    RUN(test_overflow);
    RUN(test_slice_ends);
    RUN(test_loads);
    RUN(test_half_exhaustive);
    RUN(test_half_rounding);
    RUN(test_bfloat);
    RUN(test_format);
    RUN(test_error);
    RUN(test_log);
    RUN(test_memory);
    RUN(test_memory_alignment);
    RUN(test_arena);
    RUN(test_file);
    RUN(test_pool);
    RUN(test_pool_order);
    RUN(test_pool_memory);
    RUN(test_once);
    RUN(test_clock);
}
