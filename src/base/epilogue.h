/* epilogue.h: ends what prologue.h began. */
