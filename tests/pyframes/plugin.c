/* SPDX-License-Identifier: MIT */
/* Built twice with frames of different sizes: libraries that follow one another at the same addresses. */
int plugin_call(void (*fn)(void));

__attribute__((visibility("default"))) int plugin_call(void (*fn)(void))
{
	volatile char room[ROOM];

	room[0] = 0;
	fn();
	return room[0];
}
