/* The same text as C++98 and C++17: C linkage, and {0} for parameters. */
#include "decl.c"
