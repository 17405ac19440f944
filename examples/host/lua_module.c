/* lua_module.c: a module for Lua 5.4. A text is an iterator, which pulls: no callback runs inside of Lua.
 *   cc -O2 -shared -fPIC -I/usr/include/lua5.4 examples/host/lua_module.c -o infer.so -lm -lpthread -ldl
 *   lua5.4 -e 'm = require("infer").open("model.gguf"); for text in m:generate("Once upon a time", 24) do io.write(text) end' */
#define INFER_IMPLEMENTATION
#include "../../infer.h"
#include <lauxlib.h>
#include <string.h>
typedef struct host {
    infer_model *model;
    infer_session *session;
    infer_generation *text; /* the one that goes on: number n. A new one ends the one before */
    lua_Integer n;
} host;

static int host_close(lua_State *L) { /* also when Lua collects it */
    host *h = luaL_checkudata(L, 1, "infer.model");
    infer_generation_end(h->text); /* what belongs to others goes first */
    infer_session_destroy(h->session), infer_model_close(h->model);
    return memset(h, 0, sizeof *h), 0;
}

static int host_open(lua_State *L) {
    host *h = memset(lua_newuserdatauv(L, sizeof *h, 0), 0, sizeof *h);
    infer_error err;
    luaL_setmetatable(L, "infer.model");
    if (infer_model_open(&h->model, luaL_checkstring(L, 1), NULL, &err) || infer_session_create(&h->session, h->model, NULL, &err))
        return luaL_error(L, "%s", err.message); /* what there is of h is collected */
    return 1;
}

static int next(lua_State *L) { /* a piece of text; nil = it has ended */
    host *h = lua_touserdata(L, lua_upvalueindex(1)); /* kept alive by the iterator */
    infer_result r = INFER_MORE;
    size_t n = 0;
    const char *text;
    if (!h->text || h->n != lua_tointeger(L, lua_upvalueindex(2))) return 0;
    while (r == INFER_MORE && n == 0) r = infer_generation_next(h->text, -1, &text, &n);
    if (r < 0) return luaL_error(L, "%s", infer_session_error(h->session)->message);
    return n ? lua_pushlstring(L, text, n), 1 : 0;
}

static int host_generate(lua_State *L) {
    host *h = luaL_checkudata(L, 1, "infer.model");
    infer_generate_params p = { .max_tokens = (int32_t)luaL_optinteger(L, 3, 64) };
    infer_error err;
    if (!h->session) return luaL_error(L, "the model is closed");
    infer_generation_end(h->text), h->text = NULL;
    infer_session_rewind(h->session, 0);
    if (infer_generation_begin(&h->text, h->session, NULL, luaL_checkstring(L, 2), &p, &err)) return luaL_error(L, "%s", err.message);
    lua_pushvalue(L, 1), lua_pushinteger(L, ++h->n);
    return lua_pushcclosure(L, next, 2), 1;
}

int luaopen_infer(lua_State *L) {
    const luaL_Reg methods[] = { { "generate", host_generate }, { "close", host_close }, { "__gc", host_close }, { NULL, NULL } };
    const luaL_Reg functions[] = { { "open", host_open }, { NULL, NULL } };
    luaL_newmetatable(L, "infer.model"), luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1), lua_setfield(L, -2, "__index");
    return luaL_newlib(L, functions), 1;
}
