/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's recurrent networks (RNN API v8): sizes and places that follow from a descriptor.
 *
 * The weight space, whose layout cuDNN keeps to itself but lets programs ask for, is laid out here as: for
 * each pseudo layer (layer x direction) its input matrices, recurrent matrices and projection, one per gate;
 * after all matrices the biases in the same order. Its total size is the sum of the parts, as on a GPU.
 */
#include "simgpu/answers.h"
#include "simgpu/cudnn_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cudnnRNNStruct {
	cudnnRNNMode_t mode;
	cudnnRNNBiasMode_t bias;
	cudnnDirectionMode_t direction;
	cudnnRNNInputMode_t input_mode;
	cudnnDataType_t type;
	int32_t input, hidden, projected, layers;
	/* What only the real library's scratch memory depends on. */
	cudnnRNNAlgo_t algo;
	cudnnDataType_t math_precision;
	cudnnMathType_t math_type;
	bool drops_out;
	uint32_t flags;
};

struct cudnnRNNDataStruct {
	int max_length, batch;
};

/* Where one linear layer of a pseudo layer lies in the weight space, in elements; -1: it does not exist. */
struct place {
	int64_t matrix, bias;
	int rows, cols;
};

static int nr_gates(const struct cudnnRNNStruct *r)
{
	return r->mode == CUDNN_LSTM ? 4 : r->mode == CUDNN_GRU ? 3 : 1;
}

static int nr_directions(const struct cudnnRNNStruct *r)
{
	return r->direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
}

static int output_width(const struct cudnnRNNStruct *r)
{
	return r->projected ? r->projected : r->hidden;
}

static bool is_projecting(const struct cudnnRNNStruct *r)
{
	return r->mode == CUDNN_LSTM && r->projected && r->projected != r->hidden;
}

/* Whether linear layer ID (inputs first, then recurrent ones) of R has a bias. */
static bool has_bias(const struct cudnnRNNStruct *r, int id)
{
	bool recurrent = id >= nr_gates(r);

	if (id >= 2 * nr_gates(r))
		return false;
	return r->bias == CUDNN_RNN_DOUBLE_BIAS || (r->bias == CUDNN_RNN_SINGLE_INP_BIAS && !recurrent) ||
	       (r->bias == CUDNN_RNN_SINGLE_REC_BIAS && recurrent);
}

/* The shape of linear layer ID in pseudo layer LAYER; skipped input (CUDNN_SKIP_INPUT) has no matrix. */
static void matrix_shape(const struct cudnnRNNStruct *r, int layer, int id, int *rows, int *cols)
{
	int gates = nr_gates(r), directions = nr_directions(r);
	int below = layer / directions ? output_width(r) * directions : r->input;

	*rows = id < 2 * gates ? r->hidden : r->projected;
	*cols = id < gates ? below : id < 2 * gates ? output_width(r) : r->hidden;
	if (id < gates && layer < directions && r->input_mode == CUDNN_SKIP_INPUT)
		*rows = *cols = 0;
}

/* Elements of the whole weight space; the place of linear layer ID of pseudo layer LAYER goes to *PLACE. */
static int64_t lay_out(const struct cudnnRNNStruct *r, int layer, int id, struct place *place)
{
	int nr_layers = r->layers * nr_directions(r);
	int nr_linear = 2 * nr_gates(r) + is_projecting(r);
	int64_t at = 0;

	*place = (struct place){ .matrix = -1, .bias = -1 };
	for (int l = 0; l < nr_layers; l++) {
		for (int k = 0; k < nr_linear; k++) {
			int rows, cols;

			matrix_shape(r, l, k, &rows, &cols);
			if (l == layer && k == id && rows) {
				place->matrix = at;
				place->rows = rows;
				place->cols = cols;
			}
			at += (int64_t)rows * cols;
		}
	}
	for (int l = 0; l < nr_layers; l++) {
		for (int k = 0; k < nr_linear; k++) {
			if (!has_bias(r, k))
				continue;
			if (l == layer && k == id)
				place->bias = at;
			at += r->hidden;
		}
	}
	return at;
}

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t *rnnDesc)
{
	*rnnDesc = sim_zalloc(sizeof(**rnnDesc));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t rnnDesc)
{
	free(rnnDesc);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnnDesc, cudnnRNNAlgo_t algo,
				       cudnnRNNMode_t cellMode, cudnnRNNBiasMode_t biasMode,
				       cudnnDirectionMode_t dirMode, cudnnRNNInputMode_t inputMode,
				       cudnnDataType_t dataType, cudnnDataType_t mathPrec,
				       cudnnMathType_t mathType, int32_t inputSize, int32_t hiddenSize,
				       int32_t projSize, int32_t numLayers,
				       cudnnDropoutDescriptor_t dropoutDesc, uint32_t auxFlags)
{
	if (!rnnDesc)
		return CUDNN_STATUS_BAD_PARAM;
	*rnnDesc = (struct cudnnRNNStruct){
		.mode = cellMode,
		.bias = biasMode,
		.direction = dirMode,
		.input_mode = inputMode,
		.type = dataType,
		.input = inputSize,
		.hidden = hiddenSize,
		.projected = projSize,
		.layers = numLayers,
		.algo = algo,
		.math_precision = mathPrec,
		.math_type = mathType,
		.drops_out = dropoutDesc && dropoutDesc->dropout > 0,
		.flags = auxFlags,
	};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
					 size_t *weightSpaceSize)
{
	struct place unused;

	(void)handle;
	if (!rnnDesc)
		return CUDNN_STATUS_BAD_PARAM;
	*weightSpaceSize = (size_t)lay_out(rnnDesc, -1, -1, &unused) * cudnn_type_bytes(rnnDesc->type);
	return CUDNN_STATUS_SUCCESS;
}

/* Describe a part of the weight space at element AT: its address and a dense 1 x ROWS x COLS tensor. */
static void describe(const struct cudnnRNNStruct *r, const void *base, int64_t at, int rows, int cols,
		     cudnnTensorDescriptor_t desc, void **address)
{
	if (address)
		*address = at < 0 ? NULL : (char *)(uintptr_t)base + (size_t)at * cudnn_type_bytes(r->type);
	if (!desc)
		return;
	memset(desc, 0, sizeof(*desc));
	if (at < 0)
		return;
	cudnnSetTensorNdDescriptor(desc, r->type, 3, (const int[]){ 1, rows, cols },
				   (const int[]){ rows * cols, cols, 1 });
}

/* PyTorch passes NULL for the descriptors and addresses that it does not want. */
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, int32_t pseudoLayer,
				      size_t weightSpaceSize, const void *weightSpace, int32_t linLayerID,
				      cudnnTensorDescriptor_t mDesc, void **mAddr,
				      cudnnTensorDescriptor_t bDesc, void **bAddr)
{
	struct place place;

	(void)handle, (void)weightSpaceSize;
	if (!rnnDesc)
		return CUDNN_STATUS_BAD_PARAM;
	lay_out(rnnDesc, pseudoLayer, linLayerID, &place);
	describe(rnnDesc, weightSpace, place.matrix, place.rows, place.cols, mDesc, mAddr);
	describe(rnnDesc, weightSpace, place.bias, rnnDesc->hidden, 1, bDesc, bAddr);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t *rnnDataDesc)
{
	*rnnDataDesc = sim_zalloc(sizeof(**rnnDataDesc));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t rnnDataDesc)
{
	free(rnnDataDesc);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t rnnDataDesc, cudnnDataType_t dataType,
					cudnnRNNDataLayout_t layout, int maxSeqLength, int batchSize,
					int vectorSize, const int seqLengthArray[], void *paddingFill)
{
	(void)dataType, (void)layout, (void)vectorSize, (void)seqLengthArray, (void)paddingFill;
	if (!rnnDataDesc)
		return CUDNN_STATUS_BAD_PARAM;
	*rnnDataDesc = (struct cudnnRNNDataStruct){ maxSeqLength, batchSize };
	return CUDNN_STATUS_SUCCESS;
}

/* Answer KIND of question about R in MODE with data X: a calibration's, else OTHERWISE. */
static size_t answer(const char *kind, const struct cudnnRNNStruct *r, cudnnForwardMode_t mode,
		     const struct cudnnRNNDataStruct *x, size_t otherwise)
{
	char question[256];

	if (!sim_answers_wanted())
		return otherwise;
	snprintf(question, sizeof(question), "%s %d %d %d %d %d %d %d %d %d %d %d %d %u %d %d %d %d", kind,
		 r->algo, r->mode, r->bias, r->direction, r->input_mode, r->type, r->math_precision,
		 r->math_type, r->input, r->hidden, r->projected, r->layers, r->flags, r->drops_out, mode,
		 x->max_length, x->batch);
	return sim_answer(question, otherwise);
}

/*
 * Model: the workspace holds the gates' activations of every layer, and the reserve space, which training
 * keeps for the backward pass, those and two states besides. The real figures are the library's and depend on
 * the algorithm.
 */
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
					cudnnForwardMode_t fwdMode, cudnnRNNDataDescriptor_t xDesc,
					size_t *workSpaceSize, size_t *reserveSpaceSize)
{
	size_t state;

	(void)handle;
	if (!rnnDesc || !xDesc)
		return CUDNN_STATUS_BAD_PARAM;
	state = (size_t)xDesc->max_length * (size_t)xDesc->batch * (size_t)rnnDesc->hidden *
		(size_t)(rnnDesc->layers * nr_directions(rnnDesc)) * cudnn_type_bytes(rnnDesc->type);
	if (workSpaceSize)
		*workSpaceSize = answer("cudnn-rnn-workspace", rnnDesc, fwdMode, xDesc,
					state * (size_t)nr_gates(rnnDesc));
	if (reserveSpaceSize)
		*reserveSpaceSize = answer(
			"cudnn-rnn-reserve", rnnDesc, fwdMode, xDesc,
			fwdMode == CUDNN_FWD_MODE_TRAINING ? state * (size_t)(nr_gates(rnnDesc) + 2) : 0);
	return CUDNN_STATUS_SUCCESS;
}
