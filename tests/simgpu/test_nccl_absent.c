/* SPDX-License-Identifier: MIT */
/* Two ranks of a job of five: the other three are absent, and as the lower of the two. */
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

#define NR_RANKS 5
#define LOW 1 /* the stand-in of the absent ranks */
#define HIGH 3

/* A rank runs in a child, where a failed cmocka assertion would be lost. */
#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static int32_t *device_copy(const int32_t *from, size_t nr)
{
	void *p = NULL;

	CHECK(cudaMalloc(&p, nr * sizeof(*from)) == cudaSuccess);
	CHECK(cudaMemcpy(p, from, nr * sizeof(*from), cudaMemcpyHostToDevice) == cudaSuccess);
	return p;
}

/* NR numbers of device memory are those that follow. */
static void expect(const int32_t *p, size_t nr, ...)
{
	int32_t seen[4 * NR_RANKS];
	va_list args;

	CHECK(cudaMemcpy(seen, p, nr * sizeof(*seen), cudaMemcpyDeviceToHost) == cudaSuccess);
	va_start(args, nr);
	for (size_t i = 0; i < nr; i++)
		CHECK(seen[i] == va_arg(args, int));
	va_end(args);
}

static void reductions(ncclComm_t comm, int rank)
{
	const int32_t mine = rank == LOW ? 2 : 3, parts[NR_RANKS] = { 1, 1 + mine, 1, 10 * mine, 1 };
	int32_t *p;

	p = device_copy(&mine, 1);
	CHECK(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, comm, 0) == ncclSuccess);
	expect(p, 1, 4 * 2 + 3);
	p = device_copy(&mine, 1);
	CHECK(ncclAllReduce(p, p, 1, ncclInt32, ncclProd, comm, 0) == ncclSuccess);
	expect(p, 1, 2 * 2 * 2 * 2 * 3);
	p = device_copy(&mine, 1);
	CHECK(ncclAllReduce(p, p, 1, ncclInt32, ncclMax, comm, 0) == ncclSuccess);
	expect(p, 1, 3);
	p = device_copy(&mine, 1);
	CHECK(ncclAllReduce(p, p, 1, ncclInt32, ncclAvg, comm, 0) == ncclSuccess);
	expect(p, 1, (4 * 2 + 3) / 5);
	p = device_copy(&mine, 1);
	CHECK(ncclReduce(p, p, 1, ncclInt32, ncclSum, HIGH, comm, 0) == ncclSuccess);
	expect(p, 1, rank == HIGH ? 4 * 2 + 3 : 2);
	p = device_copy(parts, NR_RANKS);
	CHECK(ncclReduceScatter(p, p, 1, ncclInt32, ncclSum, comm, 0) == ncclSuccess);
	expect(p, 1, rank == LOW ? 4 * 3 + 4 : 4 * 20 + 30);
}

static void gathers(ncclComm_t comm, int rank)
{
	const int32_t mine[2] = { 10 + rank, 20 + rank }, zeros[2 * NR_RANKS] = { 0 };
	int32_t *from = device_copy(mine, 2), *to = device_copy(zeros, 2 * NR_RANKS);

	CHECK(ncclAllGather(from, to, 2, ncclInt32, comm, 0) == ncclSuccess);
	expect(to, 10, 11, 21, 11, 21, 11, 21, 13, 23, 11, 21);
	to = device_copy(zeros, 2 * NR_RANKS);
	CHECK(ncclGather(from, to, 2, ncclInt32, HIGH, comm, 0) == ncclSuccess);
	if (rank == HIGH)
		expect(to, 10, 11, 21, 11, 21, 11, 21, 13, 23, 11, 21);
	CHECK(ncclGather(from, to, 2, ncclInt32, 0, comm, 0) == ncclSuccess);
}

static void broadcasts(ncclComm_t comm, int rank)
{
	const int32_t mine = 10 + rank;
	int32_t *p = device_copy(&mine, 1);

	CHECK(ncclBroadcast(p, p, 1, ncclInt32, HIGH, comm, 0) == ncclSuccess);
	expect(p, 1, 10 + HIGH);
	p = device_copy(&mine, 1);
	CHECK(ncclBroadcast(p, p, 1, ncclInt32, 4, comm, 0) == ncclSuccess);
	expect(p, 1, 10 + LOW);
}

/* Absent ranks have for this one what it has for itself; in a group of sends and receives as well. */
static void all_to_all(ncclComm_t comm, int rank)
{
	const int32_t mine[NR_RANKS] = { 10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3, 10 * rank + 4 };
	const int32_t zeros[NR_RANKS] = { 0 };
	int32_t *from = device_copy(mine, NR_RANKS);

	for (int by_messages = 0; by_messages < 2; by_messages++) {
		int32_t *to = device_copy(zeros, NR_RANKS);
		int own = 11 * rank;

		if (by_messages) {
			CHECK(ncclGroupStart() == ncclSuccess);
			for (int peer = 0; peer < NR_RANKS; peer++) {
				CHECK(ncclSend(from + peer, 1, ncclInt32, peer, comm, 0) == ncclSuccess);
				CHECK(ncclRecv(to + peer, 1, ncclInt32, peer, comm, 0) == ncclSuccess);
			}
			CHECK(ncclGroupEnd() == ncclSuccess);
		} else {
			CHECK(ncclAlltoAll(from, to, 1, ncclInt32, comm, 0) == ncclSuccess);
		}
		if (rank == LOW)
			expect(to, NR_RANKS, own, own, own, 10 * HIGH + LOW, own);
		else
			expect(to, NR_RANKS, own, 10 * LOW + HIGH, own, own, own);
	}
}

static void messages(ncclComm_t comm, int rank)
{
	const int32_t mine = rank;
	int32_t *p = device_copy(&mine, 1);

	CHECK(ncclRecv(p, 1, ncclInt32, 0, comm, 0) == ncclSuccess);
	CHECK(ncclSend(p, 1, ncclInt32, 4, comm, 0) == ncclSuccess);
	expect(p, 1, rank);
	CHECK((rank == LOW ? ncclSend(p, 1, ncclInt32, HIGH, comm, 0) : ncclRecv(p, 1, ncclInt32, LOW, comm, 0)) ==
	      ncclSuccess);
	expect(p, 1, LOW);
}

static void expect_comm(ncclComm_t comm, int nr_ranks, int rank, int sum)
{
	const int32_t one = 1;
	int32_t *p = device_copy(&one, 1);
	int seen;

	CHECK(ncclCommCount(comm, &seen) == ncclSuccess && seen == nr_ranks);
	CHECK(ncclCommUserRank(comm, &seen) == ncclSuccess && seen == rank);
	CHECK(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, comm, 0) == ncclSuccess);
	expect(p, 1, sum);
	CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

/* Ranks 1 and 3 of four, and with rank 0 absent: split off, and made of a new id. */
static void subgroups(const ncclUniqueId *id, ncclComm_t comm, int rank)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	int place = rank == LOW ? 1 : 2;
	ncclComm_t part = NULL;
	ncclUniqueId next = *id;

	CHECK(ncclCommSplit(comm, 7, place, &part, NULL) == ncclInvalidUsage);
	config.netName = "simgpu:4:1,2";
	CHECK(ncclCommSplit(comm, 7, place, &part, &config) == ncclSuccess);
	expect_comm(part, 4, place, 4);
	CHECK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, place, &part, NULL) == ncclSuccess && !part);
	next.internal[0] ^= 1;
	CHECK(ncclCommInitRankConfig(&part, 4, next, place, &config) == ncclSuccess);
	expect_comm(part, 4, place, 4);
	next.internal[1] ^= 1;
	config.netName = "simgpu:4:1,2:1";
	CHECK(ncclCommInitRankConfig(&part, 2, next, rank == HIGH, &config) == ncclSuccess);
	expect_comm(part, 2, rank == HIGH, 2);
	config.netName = "simgpu:4:1,2:0";
	CHECK(ncclCommInitRankConfig(&part, 2, next, 1, &config) == ncclSuccess);
	expect_comm(part, 2, 1, 2);
}

static void rank_main(const ncclUniqueId *id, int rank)
{
	ncclComm_t comm;

	CHECK(cudaSetDevice(0) == cudaSuccess);
	CHECK(ncclCommInitRank(&comm, NR_RANKS, *id, rank) == ncclSuccess);
	reductions(comm, rank);
	gathers(comm, rank);
	broadcasts(comm, rank);
	all_to_all(comm, rank);
	messages(comm, rank);
	subgroups(id, comm, rank);
	CHECK(ncclCommDestroy(comm) == ncclSuccess);
	_exit(0);
}

static void test_two_of_five(void **state)
{
	const int rank[2] = { LOW, HIGH };
	ncclUniqueId id;
	pid_t pid[2];

	(void)state;
	setenv("SIMGPU_RANKS", "1,3", 1);
	setenv("WORLD_SIZE", "5", 1);
	assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (!pid[i])
			rank_main(&id, rank[i]);
	}
	for (int i = 0; i < 2; i++) {
		int status = 0;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_two_of_five) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
