/* SPDX-License-Identifier: MIT */
/* Between halt.c and the programs it stops. */
#ifndef HALT_H
#define HALT_H

#define HALT_BYTES 12345

void halt_here(void);
void halted(void); /* the program's */

#endif
