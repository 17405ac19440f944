/* page.c: the page at /, as tools/embed_page.py has made it of page.html: its bytes, and a policy by which a browser runs its own
 * script and no other, whatever a model writes. */
#include "serve.h"

#include "build/tool/serve/page.inc"

const char serve_page_policy[] = SERVE_PAGE_POLICY;

void route_page(call *c) {
    c->type = "text/html; charset=utf-8";
    cli_text_put("serve", &c->out, (const char *)serve_page, sizeof serve_page);
}
