/* SPDX-License-Identifier: MIT */
/* What a program stores in a cuDNN descriptor comes back, and sizes follow from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cudnn.h>

static cudnnBackendDescriptor_t descriptor(cudnnBackendDescriptorType_t type)
{
	cudnnBackendDescriptor_t d;

	assert_int_equal(cudnnBackendCreateDescriptor(type, &d), CUDNN_STATUS_SUCCESS);
	return d;
}

static void test_backend_attribute(void **state)
{
	const int64_t dims[] = { 4, 8, 16, 16 };
	int64_t back[4] = { 0 }, count = 0;
	cudnnBackendDescriptor_t d = descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);

	(void)state;
	assert_int_equal(cudnnBackendSetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims),
			 0);
	assert_int_equal(cudnnBackendFinalize(d), 0);
	assert_int_equal(
		cudnnBackendGetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, &count, back),
		0);
	assert_int_equal(count, 4);
	assert_memory_equal(back, dims, sizeof(dims));
	assert_int_equal(
		cudnnBackendGetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, &count, back),
		CUDNN_STATUS_BAD_PARAM);
	cudnnBackendDestroyDescriptor(d);
}

/* A child outlives its own destruction for as long as a parent holds it. */
static void test_backend_children(void **state)
{
	const int64_t index = 7;
	int64_t back = 0, count = 0;
	cudnnBackendDescriptor_t engine = descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	cudnnBackendDescriptor_t config = descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	cudnnBackendDescriptor_t copy = descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);

	(void)state;
	cudnnBackendSetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
	cudnnBackendSetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
				 &engine);
	cudnnBackendDestroyDescriptor(engine);
	cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
				 &count, &copy);
	assert_int_equal(count, 1);
	cudnnBackendDestroyDescriptor(config);
	cudnnBackendGetAttribute(copy, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &back);
	assert_int_equal(back, 7);
	cudnnBackendDestroyDescriptor(copy);
}

static void test_heuristics_offer_one_engine(void **state)
{
	cudnnBackendDescriptor_t heuristics = descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	cudnnBackendDescriptor_t config = descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	int64_t count = 0, workspace = -1;

	(void)state;
	cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
				 &count, NULL);
	assert_int_equal(count, 1);
	cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
				 &count, &config);
	cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
				 &workspace);
	assert_int_equal(workspace, 0);
	cudnnBackendDestroyDescriptor(config);
	cudnnBackendDestroyDescriptor(heuristics);
}

/* An LSTM's weight space is the sum of its matrices and biases, and they lie in it without overlap. */
static void test_rnn_weights(void **state)
{
	enum { INPUT = 16, HIDDEN = 32, ELEMENTS = 4 * (HIDDEN * INPUT + HIDDEN * HIDDEN + 2 * HIDDEN) };
	cudnnHandle_t handle;
	cudnnRNNDescriptor_t rnn;
	size_t bytes = 0, covered = 0;
	static char space[ELEMENTS * sizeof(float)];

	(void)state;
	cudnnCreate(&handle);
	cudnnCreateRNNDescriptor(&rnn);
	cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
				 CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
				 CUDNN_DEFAULT_MATH, INPUT, HIDDEN, HIDDEN, 1, NULL, 0);
	assert_int_equal(cudnnGetRNNWeightSpaceSize(handle, rnn, &bytes), 0);
	assert_int_equal(bytes, sizeof(space));
	for (int id = 0; id < 8; id++) {
		void *matrix = NULL, *bias = NULL;

		assert_int_equal(
			cudnnGetRNNWeightParams(handle, rnn, 0, bytes, space, id, NULL, &matrix, NULL, &bias),
			0);
		assert_true((char *)matrix >= space && (char *)matrix < space + bytes);
		assert_true((char *)bias >= space && (char *)bias < space + bytes);
		covered += (id < 4 ? HIDDEN * INPUT : HIDDEN * HIDDEN) + HIDDEN;
	}
	assert_int_equal(covered * sizeof(float), bytes);
	cudnnDestroyRNNDescriptor(rnn);
	cudnnDestroy(handle);
}

/* A plan becomes a node of the program's graph; later addresses change none. */
static void test_a_plan_as_a_graph(void **state)
{
	cudnnBackendDescriptor_t plan = descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	cudnnBackendDescriptor_t pack = descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	cudnnHandle_t handle;
	cudaGraph_t graph;
	size_t nr = 9;

	(void)state;
	assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
	assert_int_equal(cudaGraphCreate(&graph, 0), cudaSuccess);
	assert_int_equal(cudnnBackendUpdateCudaGraph(handle, plan, pack, graph), CUDNN_STATUS_BAD_PARAM);
	assert_int_equal(cudnnBackendPopulateCudaGraph(handle, plan, NULL, graph), CUDNN_STATUS_BAD_PARAM);
	assert_int_equal(cudnnBackendPopulateCudaGraph(handle, plan, pack, graph), CUDNN_STATUS_SUCCESS);
	assert_int_equal(cudnnBackendUpdateCudaGraph(handle, plan, pack, graph), CUDNN_STATUS_SUCCESS);
	assert_int_equal(cudaGraphGetNodes(graph, NULL, &nr), cudaSuccess);
	assert_int_equal(nr, 1);
	assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
	assert_int_equal(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
	cudnnBackendDestroyDescriptor(plan);
	cudnnBackendDestroyDescriptor(pack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backend_attribute),
		cmocka_unit_test(test_backend_children),
		cmocka_unit_test(test_heuristics_offer_one_engine),
		cmocka_unit_test(test_rnn_weights),
		cmocka_unit_test(test_a_plan_as_a_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
