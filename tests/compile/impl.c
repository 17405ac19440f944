/* The implementation alone; BEFORE includes system headers first, when it is too late for feature-test macros. */
#if defined(BEFORE_SYSTEM)
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#endif
#if defined(BEFORE_WINDOWS)
#include <windows.h>
#endif
#define INFER_IMPLEMENTATION
#include "../../infer.h"
#include "../../infer.h" /* a second time: nothing more */
