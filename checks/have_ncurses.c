/* SPDX-License-Identifier: MIT */
/* the page of top, drawn anew. package: libncurses-dev link: -lncursesw -ltinfo needed */
#include <curses.h>

int main(void)
{
	return newterm(NULL, stdout, stdin) == NULL;
}
