/* Lets a Python program say from when to when callgrind counts its instructions (instructions.py). */
#include <valgrind/callgrind.h>

void begin(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void end(void) {
    CALLGRIND_STOP_INSTRUMENTATION;
}
