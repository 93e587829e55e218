/* SPDX-License-Identifier: MIT */
/* Two processes exchange data through NCCL: collectives, receives posted before the sends, a split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

/* A rank runs in a child, where a failed cmocka assertion would be lost. */
#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void *device_alloc(const void *from, size_t bytes)
{
	void *p = NULL;

	CHECK(cudaMalloc(&p, bytes) == cudaSuccess);
	if (from)
		CHECK(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
	return p;
}

static void fetch(void *to, const void *from, size_t bytes)
{
	CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
}

static void reduce(ncclComm_t comm, int rank)
{
	float mine[2] = { 1.5f * (float)(rank + 1), (float)rank }, sum[2];
	int64_t value = rank ? 3 : 5, most;
	void *a = device_alloc(mine, sizeof(mine)), *b = device_alloc(&value, sizeof(value));

	CHECK(ncclAllReduce(a, a, 2, ncclFloat32, ncclSum, comm, 0) == ncclSuccess);
	CHECK(ncclAllReduce(b, b, 1, ncclInt64, ncclMax, comm, 0) == ncclSuccess);
	fetch(sum, a, sizeof(sum));
	fetch(&most, b, sizeof(most));
	CHECK(sum[0] == 4.5f && sum[1] == 1.0f && most == 5);
}

/* 1.5 + 3 in each small type; in the last, 4.5 lies between two numbers. */
static void reduce_small(ncclComm_t comm, int rank)
{
	static const struct {
		ncclDataType_t type;
		uint16_t mine[2], sum;
	} rows[] = {
		{ ncclFloat16, { 0x3e00, 0x4200 }, 0x4480 },
		{ ncclBfloat16, { 0x3fc0, 0x4040 }, 0x4090 },
		{ ncclFloat8e4m3, { 0x3c, 0x44 }, 0x49 },
		{ ncclFloat8e5m2, { 0x3e, 0x42 }, 0x44 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		void *p = device_alloc(&rows[i].mine[rank], 2);
		uint16_t sum = 0;

		CHECK(ncclAllReduce(p, p, 1, rows[i].type, ncclSum, comm, 0) == ncclSuccess);
		fetch(&sum, p, i < 2 ? 2 : 1);
		CHECK(sum == rows[i].sum);
	}
}

static void gather(ncclComm_t comm, int rank)
{
	int32_t mine = 10 + rank, all[2] = { 0 };
	void *a = device_alloc(&mine, sizeof(mine)), *b = device_alloc(NULL, sizeof(all));

	CHECK(ncclAllGather(a, b, 1, ncclInt32, comm, 0) == ncclSuccess);
	fetch(all, b, sizeof(all));
	CHECK(all[0] == 10 && all[1] == 11);
}

/* Both ranks post the receive first and send more than a ring holds before they wait. */
static void pass_around(ncclComm_t comm, int rank)
{
	enum { BYTES = 200 * 1024, ROUNDS = 8 };
	char *text = malloc(BYTES);
	void *in = device_alloc(NULL, (size_t)BYTES * ROUNDS), *out;

	memset(text, 'a' + rank, BYTES);
	out = device_alloc(text, BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(ncclRecv((char *)in + (size_t)i * BYTES, BYTES, ncclInt8, !rank, comm, 0) ==
		      ncclSuccess);
		CHECK(ncclSend(out, BYTES, ncclInt8, !rank, comm, 0) == ncclSuccess);
	}
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	fetch(text, (char *)in + (size_t)(ROUNDS - 1) * BYTES, BYTES);
	CHECK(text[0] == 'a' + !rank && text[BYTES - 1] == 'a' + !rank);
	free(text);
}

/* A receive whose memory was freed meanwhile takes its message and writes nowhere. */
static void forget(ncclComm_t comm, int rank)
{
	int32_t value = 42;
	void *in = device_alloc(NULL, 4 << 20), *out = device_alloc(&value, sizeof(value));

	CHECK(ncclRecv(in, 1, ncclInt32, !rank, comm, 0) == ncclSuccess);
	CHECK(cudaFree(in) == cudaSuccess);
	CHECK(ncclSend(out, 1, ncclInt32, !rank, comm, 0) == ncclSuccess);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

static void split(ncclComm_t comm, int rank)
{
	ncclComm_t half, reversed;
	int count, new_rank;

	CHECK(ncclCommSplit(comm, rank, 0, &half, NULL) == ncclSuccess);
	CHECK(ncclCommCount(half, &count) == ncclSuccess && count == 1);
	CHECK(ncclCommSplit(comm, 0, -rank, &reversed, NULL) == ncclSuccess);
	CHECK(ncclCommUserRank(reversed, &new_rank) == ncclSuccess && new_rank == !rank);
	reduce(reversed, rank);
	CHECK(ncclCommDestroy(reversed) == ncclSuccess && ncclCommDestroy(half) == ncclSuccess);
}

/* Those who remain call it; the parent goes on. */
static void shrink(ncclComm_t comm, int rank)
{
	int first = 0, both[2] = { 0, 0 }, count;
	ncclComm_t rest;

	if (!rank) {
		CHECK(ncclCommShrink(comm, &first, 1, &rest, NULL, NCCL_SHRINK_DEFAULT) == ncclInvalidArgument);
		return;
	}
	CHECK(ncclCommShrink(comm, both, 2, &rest, NULL, NCCL_SHRINK_DEFAULT) == ncclInvalidArgument);
	for (int i = 0; i < 2; i++) {
		CHECK(ncclCommShrink(comm, &first, 1, &rest, NULL, NCCL_SHRINK_ABORT) == ncclSuccess);
		CHECK(ncclCommCount(rest, &count) == ncclSuccess && count == 1);
		CHECK(ncclCommDestroy(rest) == ncclSuccess);
	}
}

static void windows(ncclComm_t comm)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
	void *p = NULL;
	ncclWindow_t a, b;

	CHECK(ncclMemAlloc(&p, 8192) == ncclSuccess);
	CHECK(ncclCommWindowRegister(comm, p, 8192, &a, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess && a);
	CHECK(ncclCommWindowRegister(comm, p, 4096, &b, NCCL_WIN_DEFAULT) == ncclSuccess && b != a);
	CHECK(ncclCommWindowRegister(comm, NULL, 4096, &b, NCCL_WIN_DEFAULT) == ncclInvalidArgument);
	CHECK(ncclCommWindowDeregister(comm, a) == ncclSuccess);
	CHECK(ncclCommWindowDeregister(comm, a) == ncclInvalidArgument);
	CHECK(ncclGroupStart() == ncclSuccess);
	CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidUsage);
	CHECK(ncclGroupEnd() == ncclInvalidUsage);
	CHECK(ncclMemFree(p) == ncclSuccess);
}

static void revoke_comm(ncclComm_t comm)
{
	ncclResult_t state;
	void *p = device_alloc(NULL, 16);

	CHECK(ncclCommRevoke(comm, 1) == ncclInvalidArgument);
	CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
	CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess);
	CHECK(ncclAllReduce(p, p, 1, ncclInt8, ncclSum, comm, 0) == ncclInvalidUsage);
	CHECK(ncclCommFinalize(comm) == ncclInvalidUsage);
}

static ncclComm_t join(const ncclUniqueId *id, int rank)
{
	ncclComm_t comm;

	CHECK(cudaSetDevice(0) == cudaSuccess);
	CHECK(ncclCommInitRank(&comm, 2, *id, rank) == ncclSuccess);
	return comm;
}

static void rank_main(const ncclUniqueId *id, int rank)
{
	ncclComm_t comm = join(id, rank);

	reduce(comm, rank);
	reduce_small(comm, rank);
	gather(comm, rank);
	pass_around(comm, rank);
	forget(comm, rank);
	split(comm, rank);
	shrink(comm, rank);
	windows(comm);
	split(comm, rank);
	revoke_comm(comm);
	CHECK(ncclCommDestroy(comm) == ncclSuccess);
	_exit(0);
}

/* Rank 1 ends after a message of two: what it has sent arrives, then rank 0 is told. */
static void bereaved_main(const ncclUniqueId *id, int rank)
{
	ncclComm_t comm = join(id, rank);
	ncclResult_t error;
	int32_t value = 7;
	void *p = device_alloc(rank ? &value : NULL, sizeof(value));

	if (rank) {
		CHECK(ncclSend(p, 1, ncclInt32, 0, comm, 0) == ncclSuccess);
		CHECK(cudaDeviceSynchronize() == cudaSuccess);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(ncclRecv((char *)p + i * 4, 1, ncclInt32, 1, comm, 0) == ncclSuccess);
	CHECK(ncclCommGetAsyncError(comm, &error) == ncclSuccess && error == ncclSuccess);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	value = 0;
	fetch(&value, p, sizeof(value));
	CHECK(value == 7);
	CHECK(ncclCommGetAsyncError(comm, &error) == ncclSuccess && error == ncclRemoteError);
	CHECK(ncclSend(p, 1, ncclInt32, 1, comm, 0) == ncclRemoteError);
	CHECK(ncclCommAbort(comm) == ncclSuccess);
	_exit(0);
}

static void run_pair(void (*main_of)(const ncclUniqueId *id, int rank))
{
	ncclUniqueId id;
	pid_t ranks[2];

	assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
	for (int rank = 0; rank < 2; rank++) {
		ranks[rank] = fork();
		assert_true(ranks[rank] >= 0);
		if (!ranks[rank])
			main_of(&id, rank);
	}
	for (int rank = 0; rank < 2; rank++) {
		int status = 0;

		assert_int_equal(waitpid(ranks[rank], &status, 0), ranks[rank]);
		assert_int_equal(status, 0);
	}
}

static void test_pair(void **state)
{
	(void)state;
	run_pair(rank_main);
}

static void test_a_rank_that_ends(void **state)
{
	(void)state;
	run_pair(bereaved_main);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_a_rank_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
