/* A stand-in for systems that are not here: see winstub/windows.h and macstub/unistd.h. */
#ifndef STUB_MATH_H
#define STUB_MATH_H
double sqrt(double), exp(double), log(double), sin(double), cos(double), tanh(double), pow(double, double), floor(double);
double fabs(double), ceil(double), ldexp(double, int), frexp(double, int *), erf(double), log2(double), exp2(double), copysign(double, double);
double log10(double), log1p(double), expm1(double), fmax(double, double), fmin(double, double), rint(double), trunc(double), round(double);
float sqrtf(float), expf(float), logf(float), sinf(float), cosf(float), tanhf(float), powf(float, float), floorf(float);
float fabsf(float), ceilf(float), ldexpf(float, int), frexpf(float, int *), erff(float), log2f(float), exp2f(float);
float log1pf(float), expm1f(float), fmaxf(float, float), fminf(float, float), rintf(float), truncf(float), roundf(float);
float nearbyintf(float), fmodf(float, float), fmaf(float, float, float);
double nearbyint(double), fmod(double, double), fma(double, double, double);
long lrintf(float), lrint(double);
#endif
