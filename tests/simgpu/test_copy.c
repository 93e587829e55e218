/* SPDX-License-Identifier: MIT */
/* Copies between arrays, rows and devices, and fills of boxes: the bytes that are to move do, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#define OK(call) assert_int_equal(call, cudaSuccess)

enum { WIDTH = 8, HEIGHT = 4, DEPTH = 3 };

static cudaArray_t byte_array(size_t width, size_t height)
{
	struct cudaChannelFormatDesc bytes = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
	cudaArray_t array;

	OK(cudaMallocArray(&array, &bytes, width, height, 0));
	return array;
}

static void count_up(unsigned char *bytes, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		bytes[i] = (unsigned char)(i + 1);
}

static void rows_go_to_an_array_and_back(void **state)
{
	unsigned char out[HEIGHT][WIDTH], in[HEIGHT][16] = { 0 };
	cudaArray_t array = byte_array(WIDTH, HEIGHT);

	(void)state;
	count_up(out[0], sizeof(out));
	OK(cudaMemcpy2DToArray(array, 0, 0, out, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2DFromArray(in[1], sizeof(in[0]), array, 2, 1, 3, 2, cudaMemcpyDeviceToHost));
	assert_memory_equal(in[1], &out[1][2], 3);
	assert_memory_equal(in[2], &out[2][2], 3);
	assert_int_equal(in[0][0] | in[1][3] | in[2][3] | in[3][0], 0);
	assert_int_equal(cudaMemcpy2DToArray(array, 1, 0, out, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice),
			 cudaErrorInvalidValue);
	OK(cudaFreeArray(array));
	cudaGetLastError();
}

static void a_part_of_an_array_goes_to_another(void **state)
{
	unsigned char out[HEIGHT][WIDTH], in[HEIGHT][WIDTH] = { 0 };
	cudaArray_t from = byte_array(WIDTH, HEIGHT), to = byte_array(WIDTH, HEIGHT);

	(void)state;
	count_up(out[0], sizeof(out));
	OK(cudaMemcpy2DToArray(from, 0, 0, out, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2DToArray(to, 0, 0, in, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2DArrayToArray(to, 4, 2, from, 1, 0, 3, 2, cudaMemcpyDeviceToDevice));
	OK(cudaMemcpy2DFromArray(in, WIDTH, to, 0, 0, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
	assert_memory_equal(&in[2][4], &out[0][1], 3);
	assert_memory_equal(&in[3][4], &out[1][1], 3);
	assert_int_equal(in[0][0] | in[1][4] | in[2][3] | in[2][7] | in[3][7], 0);
	OK(cudaFreeArray(from));
	OK(cudaFreeArray(to));
}

static void a_box_goes_to_another_device(void **state)
{
	struct cudaMemcpy3DPeerParms copy = { .extent = { 5, 2, 2 }, .dstDevice = 1, .srcPos = { 1, 1, 0 } };
	unsigned char out[DEPTH][HEIGHT][WIDTH], in[2 * 2 * 16] = { 0 };
	cudaStream_t stream;
	void *src, *dst;

	(void)state;
	count_up(out[0][0], sizeof(out));
	OK(cudaMalloc(&src, sizeof(out)));
	OK(cudaMemcpy(src, out, sizeof(out), cudaMemcpyDefault));
	OK(cudaSetDevice(1));
	OK(cudaMalloc(&dst, sizeof(in)));
	OK(cudaMemset(dst, 0, sizeof(in)));
	copy.srcPtr = (struct cudaPitchedPtr){ src, WIDTH, WIDTH, HEIGHT };
	copy.dstPtr = (struct cudaPitchedPtr){ dst, 16, 16, 2 };
	OK(cudaMemcpy3DPeer(&copy));
	OK(cudaMemcpy(in, dst, sizeof(in), cudaMemcpyDefault));
	assert_memory_equal(in, &out[0][1][1], 5);
	assert_memory_equal(in + 3 * 16, &out[1][2][1], 5);
	assert_int_equal(in[5] | in[16 + 5] | in[3 * 16 + 5], 0);
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	copy.srcPos.z = 1;
	OK(cudaMemcpy3DPeerAsync(&copy, stream));
	OK(cudaMemcpy(in, dst, sizeof(in), cudaMemcpyDefault));
	assert_memory_equal(in, &out[1][1][1], 5);
	OK(cudaStreamDestroy(stream));
	OK(cudaFree(dst));
	OK(cudaSetDevice(0));
	OK(cudaFree(src));
	assert_int_equal(cudaMemcpy3DPeer(NULL), cudaErrorInvalidValue);
	cudaGetLastError();
}

static void a_box_is_filled_and_no_more(void **state)
{
	unsigned char in[DEPTH][HEIGHT][WIDTH];
	void *p;

	(void)state;
	OK(cudaMalloc(&p, sizeof(in)));
	OK(cudaMemset(p, 1, sizeof(in)));
	OK(cudaMemset3D((struct cudaPitchedPtr){ p, WIDTH, WIDTH, HEIGHT }, 9, (struct cudaExtent){ 5, 2, 2 }));
	OK(cudaMemcpy(in, p, sizeof(in), cudaMemcpyDefault));
	for (int z = 0; z < DEPTH; z++)
		for (int y = 0; y < HEIGHT; y++)
			for (int x = 0; x < WIDTH; x++)
				assert_int_equal(in[z][y][x], x < 5 && y < 2 && z < 2 ? 9 : 1);
	OK(cudaFree(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_go_to_an_array_and_back),
		cmocka_unit_test(a_part_of_an_array_goes_to_another),
		cmocka_unit_test(a_box_goes_to_another_device),
		cmocka_unit_test(a_box_is_filled_and_no_more),
	};

	setenv("SIMGPU_DEVICES", "2", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
