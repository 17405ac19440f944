/* prologue.h: the diagnostics of the implementation, and the two switches of <windows.h>.
 *
 * Owns:  refusing C++, the hint about unoptimised builds, silencing warnings about unused static functions (a user
 *        may leave out half of the library), and -ffast-math of clang. epilogue.h ends what begins here.
 * Note:  no feature-test macro (_GNU_SOURCE and such) is set here on purpose: a user may have included a system
 *        header before, and then it would come too late. os.c declares the few things that strict modes hide.
 */
#if defined(__cplusplus)
#  error "infer.h: the implementation is C99. Put `#define INFER_IMPLEMENTATION` and `#include \"infer.h\"`"
#  error "in a file that ends in .c, compile that as C, and include infer.h without the macro in C++ files."
#endif

#if defined(_WIN32)
#  ifndef WIN32_LEAN_AND_MEAN
#    define WIN32_LEAN_AND_MEAN
#  endif
#  ifndef NOMINMAX
#    define NOMINMAX
#  endif
#endif

#if defined(__clang__)
#  pragma clang diagnostic push
#  pragma clang diagnostic ignored "-Wunused-function"
#  if defined(__FAST_MATH__) /* its NaNs would become numbers; gcc has no such switch that leaves inlining alone */
#    pragma float_control(precise, on, push)
#  endif
#elif defined(__GNUC__)
#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Wunused-function"
#elif defined(_MSC_VER)
#  pragma warning(push)
#  pragma warning(disable : 4505 4127 4324 4204 4221 4244 4267 4996) /* unused static, constant test, padding, C99 */
#endif

#if defined(__GNUC__) && !defined(__OPTIMIZE__) && !defined(INFER_QUIET)
#  pragma message("infer.h is being compiled without optimisation: use -O2 (or define INFER_QUIET). It will be slow.")
#endif

/* Tables for unwinding are a tenth of a small build, and are loaded with it. There they become debugging information:
 * no exception may pass through the library, whatever the tables say. */
#if defined(INFER_MINIMAL) && defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && defined(__ELF__) && \
    (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
__asm__(".cfi_sections .debug_frame");
#endif
