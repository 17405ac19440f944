/* page.c: the page at /, as tools/embed_page.py has made it of page/, and its policy, by which a browser runs the page's own script and no
 * other, whatever a model writes. */
#include "../serve.h"

#include <string.h>

#include "../page_embed.h"

const char serve_page_policy[] = PAGE_POLICY;

void route_page(call *c) {
    size_t i;
    c->type = "text/html; charset=utf-8";
    for (i = 0; i < sizeof page_pieces / sizeof *page_pieces; i++) cli_text_put("serve", &c->out, page_pieces[i], strlen(page_pieces[i]));
}
