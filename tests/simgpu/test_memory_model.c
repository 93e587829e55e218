/* SPDX-License-Identifier: MIT */
/*
 * What libraries would take of the device is charged, told to who listens and given back; a model file
 * changes it. Each case is a process of its own: the environment is read once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cufft.h>
#include <nccl.h>

#include "simgpu/report.h"

#define MIB(n) ((size_t)(n) << 20)

/* A case runs in a child, where a failed cmocka assertion would be lost. */
#define CHECK(condition)                                                                                     \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

static void run_case(void (*body)(void), int expected_status)
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (!pid) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), expected_status);
}

/* ---- a listener that adds up ----------------------------------------------------------------- */

static struct {
	size_t live[2]; /* bytes, by device */
	unsigned nr_told, nr_freed;
	char owners[256]; /* in order of being told, separated by blanks */
} heard;

static void on_alloc(int device, const char *owner, uint64_t address, uint64_t bytes)
{
	CHECK(address);
	heard.live[device] += bytes;
	heard.nr_told++;
	strcat(strcat(heard.owners, owner), " ");
}

static void on_free(int device, const char *owner, uint64_t address, uint64_t bytes)
{
	CHECK(address && owner);
	heard.live[device] -= bytes;
	heard.nr_freed++;
}

static const struct simgpu_listener listener = {
	.struct_bytes = sizeof(listener),
	.modelled_alloc = on_alloc,
	.modelled_free = on_free,
};

static size_t used(int device)
{
	size_t free_bytes, total;

	CHECK(cudaSetDevice(device) == cudaSuccess);
	CHECK(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess);
	return total - free_bytes;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void context_and_listener(void)
{
	void *p;

	CHECK(used(0) == MIB(500));
	simgpu_listen(&listener);
	CHECK(!strcmp(heard.owners, "context ") && heard.live[0] == MIB(500));
	CHECK(cudaSetDevice(1) == cudaSuccess && cudaFree(NULL) == cudaSuccess);
	CHECK(!strcmp(heard.owners, "context context ") && heard.live[1] == MIB(500));
	CHECK(cudaDeviceReset() == cudaSuccess);
	CHECK(heard.nr_freed == 1 && heard.live[1] == 0);
	simgpu_listen(NULL);
	CHECK(cudaMalloc(&p, MIB(2)) == cudaSuccess && used(1) == MIB(502));
	CHECK(heard.nr_told == 2);
}

static void communicators(void)
{
	ncclComm_t comms[2], alone;
	void *data[2];

	simgpu_listen(&listener);
	for (int i = 0; i < 2; i++)
		CHECK(cudaSetDevice(i) == cudaSuccess && cudaMalloc(&data[i], MIB(2)) == cudaSuccess);
	CHECK(ncclCommInitAll(comms, 2, NULL) == ncclSuccess);
	CHECK(used(0) == MIB(502) && used(1) == MIB(502));
	for (int times = 0; times < 2; times++) {
		for (int i = 0; i < 2; i++)
			CHECK(ncclAllReduce(data[i], data[i], MIB(2) / 4, ncclFloat32, ncclSum, comms[i],
					    NULL) == ncclSuccess);
		CHECK(used(0) == MIB(662) && used(1) == MIB(662));
	}
	CHECK(!strcmp(heard.owners, "context context nccl nccl "));
	CHECK(ncclCommInitAll(&alone, 1, NULL) == ncclSuccess);
	CHECK(ncclAllReduce(data[0], data[0], 4, ncclFloat32, ncclSum, alone, NULL) == ncclSuccess);
	CHECK(heard.nr_told == 4);
	CHECK(ncclCommDestroy(comms[0]) == ncclSuccess && ncclCommDestroy(comms[1]) == ncclSuccess);
	CHECK(used(0) == MIB(502) && heard.live[0] == MIB(500) && heard.nr_freed == 2);
}

static void communicator_without_room(void)
{
	ncclComm_t comms[2];
	void *data;

	setenv("SIMGPU_CAPACITY", "629145600", 1);
	CHECK(cudaMalloc(&data, MIB(2)) == cudaSuccess);
	CHECK(ncclCommInitAll(comms, 2, NULL) == ncclSuccess);
	CHECK(ncclAllReduce(data, data, MIB(2) / 4, ncclFloat32, ncclSum, comms[0], NULL) ==
	      ncclUnhandledCudaError);
	CHECK(used(0) == MIB(502));
	CHECK(ncclCommDestroy(comms[0]) == ncclSuccess);
}

static void context_without_room(void)
{
	void *p;

	setenv("SIMGPU_CAPACITY", "104857600", 1);
	CHECK(cudaFree(NULL) == cudaErrorMemoryAllocation);
	CHECK(cudaMalloc(&p, 4) == cudaErrorMemoryAllocation);
}

static void blas_workspace(void)
{
	cublasHandle_t own, given;
	float one = 1, *m;

	CHECK(cudaMalloc((void **)&m, MIB(2)) == cudaSuccess);
	CHECK(cublasCreate(&own) == CUBLAS_STATUS_SUCCESS && cublasCreate(&given) == CUBLAS_STATUS_SUCCESS);
	CHECK(cublasSetWorkspace(given, m, MIB(2)) == CUBLAS_STATUS_SUCCESS);
	CHECK(cublasSgemm(given, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, m, 2, m, 2, &one, m, 2) == 0);
	CHECK(used(0) == MIB(502));
	CHECK(cublasSetStream(given, NULL) == CUBLAS_STATUS_SUCCESS);
	CHECK(cublasSgemm(given, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, m, 2, m, 2, &one, m, 2) == 0);
	CHECK(used(0) == MIB(534));
	for (int times = 0; times < 2; times++)
		CHECK(cublasSgemm(own, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, m, 2, m, 2, &one, m, 2) == 0);
	CHECK(used(0) == MIB(566));
	CHECK(cublasDestroy(own) == 0 && cublasDestroy(given) == 0);
	CHECK(used(0) == MIB(502));
}

static void fft_work_area(void)
{
	cufftHandle plan, lent;
	size_t bytes = 0;

	CHECK(cudaFree(NULL) == cudaSuccess);
	CHECK(cufftPlan1d(&plan, 1 << 20, CUFFT_C2C, 4) == CUFFT_SUCCESS);
	CHECK(used(0) == MIB(532));
	CHECK(cufftCreate(&lent) == CUFFT_SUCCESS && cufftSetAutoAllocation(lent, 0) == CUFFT_SUCCESS);
	CHECK(cufftMakePlan1d(lent, 1 << 20, CUFFT_C2C, 4, &bytes) == CUFFT_SUCCESS && bytes == MIB(32));
	CHECK(used(0) == MIB(532));
	CHECK(cufftDestroy(plan) == CUFFT_SUCCESS && cufftDestroy(lent) == CUFFT_SUCCESS);
	CHECK(used(0) == MIB(500));
}

/* ---- model files ------------------------------------------------------------------------------ */

static char folder[64], model_path[80], questions_path[80];

static void use_model(const char *text)
{
	FILE *f = fopen(model_path, "w");

	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
	setenv("SIMGPU_MODEL", model_path, 1);
}

static void model_file(void)
{
	struct cudaDeviceProp properties;
	ncclComm_t comms[2];
	void *data;

	use_model("product My GPU\ncapacity_bytes 4294967296\nsms 7\ncompute_capability 80\n"
		  "context_bytes 104857600\ncode_bytes 1048576\nnccl 2 1048576 2097152\nnccl 8 5 6\n");
	CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
	CHECK(!strcmp(properties.name, "My GPU") && properties.multiProcessorCount == 7);
	CHECK(properties.major == 8 && properties.minor == 0);
	CHECK(properties.totalGlobalMem == 4294967296);
	simgpu_listen(&listener);
	CHECK(cudaMalloc(&data, MIB(2)) == cudaSuccess && used(0) == MIB(103));
	CHECK(!strcmp(heard.owners, "context code "));
	CHECK(ncclCommInitAll(comms, 2, NULL) == ncclSuccess && used(0) == MIB(104));
	CHECK(ncclAllReduce(data, data, MIB(2) / 4, ncclFloat32, ncclSum, comms[0], NULL) == ncclSuccess);
	CHECK(used(0) == MIB(106));
}

static void ask_rnn(size_t *workspace, size_t *reserve)
{
	const int lengths[] = { 10, 10 };
	cudnnHandle_t handle;
	cudnnRNNDescriptor_t rnn;
	cudnnRNNDataDescriptor_t x;

	CHECK(!cudnnCreate(&handle) && !cudnnCreateRNNDescriptor(&rnn) && !cudnnCreateRNNDataDescriptor(&x));
	CHECK(!cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
					CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
					CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 16, 32, 32, 1, NULL, 0));
	CHECK(!cudnnSetRNNDataDescriptor(x, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 10, 2,
					 16, lengths, NULL));
	CHECK(!cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_TRAINING, x, workspace, reserve));
}

static void ask(void)
{
	size_t workspace, reserve;

	setenv("SIMGPU_QUESTIONS", questions_path, 1);
	for (int times = 0; times < 2; times++)
		ask_rnn(&workspace, &reserve);
	CHECK(workspace == 10 * 2 * 32 * 4 * 4 && reserve == 10 * 2 * 32 * 6 * 4);
}

/* The second of the two questions is answered; the first keeps its model. */
static void answer(void)
{
	char first[256], second[256], model[512];
	size_t workspace, reserve;
	FILE *f = fopen(questions_path, "r");

	CHECK(f && fgets(first, sizeof(first), f) && fgets(second, sizeof(second), f));
	CHECK(fgetc(f) == EOF && !fclose(f));
	CHECK(!strncmp(first, "cudnn-rnn-workspace ", 20) && !strncmp(second, "cudnn-rnn-reserve ", 18));
	snprintf(model, sizeof(model), "answer 4711 %s", second);
	use_model(model);
	ask_rnn(&workspace, &reserve);
	CHECK(workspace == 10 * 2 * 32 * 4 * 4 && reserve == 4711);
}

static void bad_line(void)
{
	use_model("context_bytes 1\nsms many\n");
	cudaFree(NULL);
}

static void unknown_name(void)
{
	use_model("contexts 1\n");
	cudaFree(NULL);
}

static void short_answer(void)
{
	use_model("answer 12 cufft\n");
	cudaFree(NULL);
}

static void number_with_a_tail(void)
{
	use_model("nccl 2 1 2 3\n");
	cudaFree(NULL);
}

static void missing_file(void)
{
	setenv("SIMGPU_MODEL", "/nonexistent/model", 1);
	cudaFree(NULL);
}

/* ---- the tests -------------------------------------------------------------------------------- */

static void test_context_is_told(void **state)
{
	(void)state;
	run_case(context_and_listener, 0);
}

static void test_context_must_fit(void **state)
{
	(void)state;
	run_case(context_without_room, 0);
}

static void test_nccl(void **state)
{
	(void)state;
	run_case(communicators, 0);
	run_case(communicator_without_room, 0);
}

static void test_cublas(void **state)
{
	(void)state;
	run_case(blas_workspace, 0);
}

static void test_cufft(void **state)
{
	(void)state;
	run_case(fft_work_area, 0);
}

static void test_model_file(void **state)
{
	(void)state;
	run_case(model_file, 0);
}

static void test_bad_model_files(void **state)
{
	(void)state;
	run_case(bad_line, 125);
	run_case(unknown_name, 125);
	run_case(short_answer, 125);
	run_case(number_with_a_tail, 125);
	run_case(missing_file, 125);
}

static void test_questions_and_answers(void **state)
{
	(void)state;
	run_case(ask, 0);
	run_case(answer, 0);
}

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test_memory_model-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(model_path, sizeof(model_path), "%s/model", folder);
	snprintf(questions_path, sizeof(questions_path), "%s/questions", folder);
	setenv("SIMGPU_PROFILE", "h100", 1);
	setenv("SIMGPU_DEVICES", "2", 1);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(model_path);
	unlink(questions_path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_context_is_told),
		cmocka_unit_test(test_context_must_fit),
		cmocka_unit_test(test_nccl),
		cmocka_unit_test(test_cublas),
		cmocka_unit_test(test_cufft),
		cmocka_unit_test(test_model_file),
		cmocka_unit_test(test_bad_model_files),
		cmocka_unit_test(test_questions_and_answers),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
