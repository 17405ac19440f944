/* A stand-in: see windows.h beside it. */
#include <stdlib.h>
