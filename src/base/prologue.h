/* prologue.h: what must come before any system header, and the diagnostics of the implementation. */
