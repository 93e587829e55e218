/* SPDX-License-Identifier: MIT */
/* Runs a fuzzer's target once on each file given, so that every compiler and sanitizer can read the corpus. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Named by the target's mutator, which nobody calls here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
	(void)data;
	(void)max_size;
	return size;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		long size;
		uint8_t *data;

		if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET)) {
			perror(argv[i]);
			return 2;
		}
		data = malloc(size ? (size_t)size : 1);
		if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
			perror(argv[i]);
			return 2;
		}
		fclose(f);
		LLVMFuzzerTestOneInput(data, (size_t)size);
		free(data);
	}
	printf("%d inputs read\n", argc - 1);
	return 0;
}
