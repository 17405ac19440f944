/* infer_impl.c: the one file of the program that holds the library. */
#define INFER_IMPLEMENTATION
#include "../../infer.h"
