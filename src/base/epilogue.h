/* epilogue.h: ends what prologue.h began. */
#if defined(__clang__)
#  if defined(__FAST_MATH__)
#    pragma float_control(pop)
#  endif
#  pragma clang diagnostic pop
#elif defined(__GNUC__)
#  pragma GCC diagnostic pop
#elif defined(_MSC_VER)
#  pragma warning(pop)
#endif
