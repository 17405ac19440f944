-- lua_module.lua: what examples/host/lua_module.c does, for tests/examples.sh: LUA_CPATH=.../?.so lua5.4 lua_module.lua MODEL
local infer = require("infer")

local function show(name, ...)
    local all = {}
    for i = 1, select("#", ...) do all[i] = tostring((select(i, ...))) end
    print(name .. ": " .. table.concat(all, " "))
end
local function text(m, prompt, n)
    local all = {}
    for piece in m:generate(prompt, n) do all[#all + 1] = piece end
    return table.concat(all)
end

local m = infer.open(arg[1])
show("text", text(m, "Once upon a time", 33))
local old = m:generate("Once upon a time", 33)
for piece in old do break end -- a loop that is left
show("another", text(m, "Once upon a time", 3))
show("its iterator has ended", old(), old())
local live = infer.open(arg[1]):generate("Once upon a time") -- only the iterator holds the model
live()
collectgarbage()
collectgarbage()
show("a model in use is not collected", #live() > 0)
infer.open(arg[1]):generate("Once upon a time")() -- collected in the middle of a text
collectgarbage()
show("no file", pcall(infer.open, "no/such.gguf"))
show("wrong", pcall(m.generate, m, "a", -1))
m:close()
m:close()
show("closed", pcall(m.generate, m, "a"))
