/* Threads of control that take turns in one OS thread. */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>

enum { FIBERS = 13, FIBER_MAIN = FIBERS };

/* Starts nothing yet: the fiber runs once fiber_run_all is called. */
void fiber_start(unsigned index, void (*body)(void *), void *argument);

/* Lets fibers run until all have returned. `resumed` is called in each after it has been resumed.
 */
void fiber_run_all(void (*resumed)(unsigned index));

/* The running fiber, or FIBER_MAIN. */
unsigned fiber_current(void);

bool fiber_is_alive(unsigned index);

/* Lets fiber `index`, which is alive, run; returns when somebody switches back. */
void fiber_switch(unsigned index);

/* What stacks need is kept from one run to the next; this frees it. */
void fiber_free_stacks(void);

#endif
