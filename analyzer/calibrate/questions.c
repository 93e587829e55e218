/* SPDX-License-Identifier: MIT */
/* Reading questions, and asking cuDNN and cuFFT. */
#include "analyzer/calibrate/questions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/calibrate/plan.h"
#include "analyzer/command.h"

struct asking {
	const struct libraries *l;
	cudnnHandle_t cudnn;
	char what[PLAN_WHAT_BYTES];
	const char *reason;
};

/* ---- kinds of questions: the text after the kind to *bytes, or false with a reason ----------- */

static bool ask_plan(struct asking *a, const char *text, uint64_t *bytes)
{
	char *graph;
	long mode = strtol(text, &graph, 10);

	if (graph == text || *graph != ' ') {
		a->reason = "the question is not understood";
		return false;
	}
	return plan_workspace(a->l, a->cudnn, (cudnnBackendHeurMode_t)mode, graph + 1, bytes, a->what,
			      &a->reason);
}

/* In the order in which simgpu/cudnn_rnn.c writes them. */
struct rnn {
	int algo, cell, bias, direction, input_mode, type, math_precision, math_type, input, hidden,
		projected, layers;
	unsigned flags;
	int drops_out, mode, length, batch;
};

/* A length is stored for each of them. */
enum { MAX_BATCH = 1 << 24 };

static bool parse_rnn(const char *text, struct rnn *r)
{
	char rest;

	return sscanf(text, "%d %d %d %d %d %d %d %d %d %d %d %d %u %d %d %d %d%c", &r->algo, &r->cell,
		      &r->bias, &r->direction, &r->input_mode, &r->type, &r->math_precision, &r->math_type,
		      &r->input, &r->hidden, &r->projected, &r->layers, &r->flags, &r->drops_out, &r->mode,
		      &r->length, &r->batch, &rest) == 17 &&
	       r->batch > 0 && r->batch <= MAX_BATCH;
}

/* A dropout descriptor needs memory for its generators when it drops anything. */
static bool set_dropout(struct asking *a, const struct rnn *r, cudnnDropoutDescriptor_t dropout,
			CUdeviceptr *states)
{
	size_t bytes = 0;

	*states = 0;
	if (r->drops_out &&
	    (a->l->cudnnDropoutGetStatesSize(a->cudnn, &bytes) || a->l->cuMemAlloc_v2(states, bytes)))
		return false;
	return !a->l->cudnnSetDropoutDescriptor(dropout, a->cudnn, r->drops_out ? 0.5f : 0, (void *)*states,
						bytes, 0);
}

static bool set_rnn(struct asking *a, const struct rnn *r, cudnnRNNDescriptor_t rnn,
		    cudnnDropoutDescriptor_t dropout, cudnnRNNDataDescriptor_t x)
{
	int *lengths = heap_alloc((size_t)r->batch, sizeof(*lengths));
	bool done;

	for (int i = 0; i < r->batch; i++)
		lengths[i] = r->length;
	done = !a->l->cudnnSetRNNDescriptor_v8(
		       rnn, (cudnnRNNAlgo_t)r->algo, (cudnnRNNMode_t)r->cell, (cudnnRNNBiasMode_t)r->bias,
		       (cudnnDirectionMode_t)r->direction, (cudnnRNNInputMode_t)r->input_mode,
		       (cudnnDataType_t)r->type, (cudnnDataType_t)r->math_precision,
		       (cudnnMathType_t)r->math_type, r->input, r->hidden, r->projected, r->layers, dropout,
		       r->flags) &&
	       !a->l->cudnnSetRNNDataDescriptor(x, (cudnnDataType_t)r->type,
						CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, r->length, r->batch,
						r->input, lengths, NULL);
	free(lengths);
	return done;
}

static bool ask_rnn(struct asking *a, const char *text, size_t *workspace, size_t *reserve)
{
	cudnnDropoutDescriptor_t dropout = NULL;
	cudnnRNNDataDescriptor_t x = NULL;
	cudnnRNNDescriptor_t rnn = NULL;
	CUdeviceptr states = 0;
	struct rnn r;
	bool done;

	if (!parse_rnn(text, &r)) {
		a->reason = "the question is not understood";
		return false;
	}
	done = !a->l->cudnnCreateDropoutDescriptor(&dropout) && !a->l->cudnnCreateRNNDataDescriptor(&x) &&
	       !a->l->cudnnCreateRNNDescriptor(&rnn) && set_dropout(a, &r, dropout, &states) &&
	       set_rnn(a, &r, rnn, dropout, x) &&
	       !a->l->cudnnGetRNNTempSpaceSizes(a->cudnn, rnn, (cudnnForwardMode_t)r.mode, x, workspace,
						reserve);
	if (!done)
		a->reason = "this cuDNN does not accept the recurrent network";
	snprintf(a->what, sizeof(a->what), "%s %d x %d, %d layers, %d steps, batch %d",
		 r.cell == CUDNN_LSTM  ? "LSTM"
		 : r.cell == CUDNN_GRU ? "GRU"
				       : "RNN",
		 r.input, r.hidden, r.layers, r.length, r.batch);
	if (rnn)
		a->l->cudnnDestroyRNNDescriptor(rnn);
	if (x)
		a->l->cudnnDestroyRNNDataDescriptor(x);
	if (dropout)
		a->l->cudnnDestroyDropoutDescriptor(dropout);
	if (states)
		a->l->cuMemFree_v2(states);
	return done;
}

static bool ask_rnn_workspace(struct asking *a, const char *text, uint64_t *bytes)
{
	size_t workspace = 0, reserve = 0;
	bool done = ask_rnn(a, text, &workspace, &reserve);

	*bytes = workspace;
	return done;
}

static bool ask_rnn_reserve(struct asking *a, const char *text, uint64_t *bytes)
{
	size_t workspace = 0, reserve = 0;
	bool done = ask_rnn(a, text, &workspace, &reserve);

	*bytes = reserve;
	return done;
}

struct fft {
	int rank;
	long long n[3], inembed[3], onembed[3];
	bool has_inembed, has_onembed;
	long long istride, idist, ostride, odist, batch;
	int in, out, execution;
};

/* RANK numbers separated by commas, or "-"; *text moves after them and the blank. */
static bool parse_list(const char **text, int rank, long long *values, bool *has)
{
	char *end;

	*has = **text != '-';
	if (!*has) {
		*text += 1;
		return *(*text)++ == ' ';
	}
	for (int i = 0; i < rank; i++) {
		values[i] = strtoll(*text, &end, 10);
		if (end == *text || *end != (i + 1 < rank ? ',' : ' '))
			return false;
		*text = end + 1;
	}
	return true;
}

static bool parse_fft(const char *text, struct fft *f)
{
	bool has_n;
	int n = 0;

	if (sscanf(text, "%d %n", &f->rank, &n) != 1 || f->rank < 1 || f->rank > 3)
		return false;
	text += n;
	if (!parse_list(&text, f->rank, f->n, &has_n) || !has_n ||
	    !parse_list(&text, f->rank, f->inembed, &f->has_inembed) ||
	    sscanf(text, "%lld %lld %d %n", &f->istride, &f->idist, &f->in, &n) != 3)
		return false;
	text += n;
	return parse_list(&text, f->rank, f->onembed, &f->has_onembed) &&
	       sscanf(text, "%lld %lld %d %lld %d", &f->ostride, &f->odist, &f->out, &f->batch,
		      &f->execution) == 5;
}

static bool ask_fft(struct asking *a, const char *text, uint64_t *bytes)
{
	struct fft f = { 0 };
	cufftHandle plan;
	size_t work = 0;
	bool done;

	if (!parse_fft(text, &f)) {
		a->reason = "the question is not understood";
		return false;
	}
	snprintf(a->what, sizeof(a->what), "%d-dimensional transform of %.*s, batch %lld", f.rank,
		 (int)strcspn(text + 2, " "), text + 2, f.batch);
	if (a->l->cufftCreate(&plan)) {
		a->reason = "cuFFT makes no plan";
		return false;
	}
	done = !a->l->cufftSetAutoAllocation(plan, 0) &&
	       !a->l->cufftXtMakePlanMany(plan, f.rank, f.n, f.has_inembed ? f.inembed : NULL, f.istride,
					  f.idist, (cudaDataType)f.in, f.has_onembed ? f.onembed : NULL,
					  f.ostride, f.odist, (cudaDataType)f.out, f.batch, &work,
					  (cudaDataType)f.execution);
	a->l->cufftDestroy(plan);
	*bytes = work;
	if (!done)
		a->reason = "cuFFT does not accept the plan";
	return done;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool ask(struct asking *a, const char *question, uint64_t *bytes)
{
	static const struct {
		const char *kind;
		bool is_cudnn;
		bool (*ask)(struct asking *a, const char *text, uint64_t *bytes);
	} kinds[] = {
		{ "cudnn-plan ", true, ask_plan },
		{ "cudnn-rnn-workspace ", true, ask_rnn_workspace },
		{ "cudnn-rnn-reserve ", true, ask_rnn_reserve },
		{ "cufft ", false, ask_fft },
	};

	a->what[0] = 0;
	a->reason = "its kind is not known";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t n = strlen(kinds[i].kind);

		if (strncmp(question, kinds[i].kind, n))
			continue;
		a->reason = kinds[i].is_cudnn ? "cuDNN was not found" : "cuFFT was not found";
		if (kinds[i].is_cudnn ? !a->cudnn : !a->l->has_cufft)
			return false;
		return kinds[i].ask(a, question + n, bytes);
	}
	return false;
}

int questions_answer(const struct libraries *l, const char *path, struct gpufile *g,
		     struct questions_result *result)
{
	struct asking a = { .l = l };
	unsigned number = 0;
	uint64_t bytes = 0;
	char *line = NULL;
	size_t size = 0;
	FILE *f = fopen(path, "re");
	int status = CMD_FINE;

	if (!f)
		return message_error("cannot open '%s': %s", path, strerror(errno));
	if (l->has_cudnn && l->cudnnCreate(&a.cudnn))
		a.cudnn = NULL;
	while (getline(&line, &size, f) > 0) {
		number++;
		line[strcspn(line, "\r\n")] = 0;
		if (!*line || gpufile_has_answer(g, line))
			continue;
		if (ask(&a, line, &bytes)) {
			gpufile_add_answer(g, line, a.what, bytes);
			result->nr_answered++;
		} else {
			message_warn("'%s', line %u: no answer: %s", path, number, a.reason);
			result->nr_unanswered++;
		}
	}
	if (!feof(f))
		status = message_error("cannot read '%s': %s", path, strerror(errno));
	if (a.cudnn)
		l->cudnnDestroy(a.cudnn);
	free(line);
	fclose(f);
	return status;
}
